"""The scikit-learn and River faces of the learners and solvers."""
