"""Pages and tables for instructors and learners, from results alone."""
