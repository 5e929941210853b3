"""Settings of every nbgrader command and of formgrader. See book/instructors-guide.md."""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821 (nbgrader defines it)

root = Path(__file__).resolve().parent
# nbgrader imports the grading preprocessor by name, also when started from another folder.
sys.path.insert(0, str(root))

c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "build/source"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.submitted_directory = "submitted"
c.CourseDirectory.autograded_directory = "autograded"
c.CourseDirectory.feedback_directory = "feedback"
# nbgrader hands out every other file of a source folder. A solution must never be one of them.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.py"]
# For example COURSE_DB_URL=postgresql://grader@db/course
c.CourseDirectory.db_url = os.environ.get("COURSE_DB_URL") or f"sqlite:///{root / 'gradebook.db'}"

# Learner code runs only in the sandbox, never in a kernel of the grader.
c.Autograde.autograde_preprocessors = ["autograder.preprocessor.GradeInSandbox"]
# A submission's metadata is not looked at, so a hostile schema version cannot stop a class.
c.Autograde.sanitize_preprocessors = ["autograder.preprocessor.InertCopy"]
c.Autograde.pre_convert_hook = "autograder.preprocessor.register_assignment"
