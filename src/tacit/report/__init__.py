"""Tables and pages made of traces and plots."""
