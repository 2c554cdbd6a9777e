"""The judges that ship. Each module contains one `JUDGE`, and has the judge's name."""
