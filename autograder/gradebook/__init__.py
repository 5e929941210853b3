"""nbgrader's gradebook: results written where formgrader and the exporters find them.

Importing this loads nothing; `writer` loads nbgrader, which takes a second.
"""
