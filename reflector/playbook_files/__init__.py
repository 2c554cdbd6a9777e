"""Files that hold the playbook: playbook.json, its versions in git, mirrors, watched lines."""
