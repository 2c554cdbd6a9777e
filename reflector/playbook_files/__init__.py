"""Files that contain the playbook: playbook.json, its versions in git, mirrors, watched lines."""
