"""The judges that ship: each module holds one `JUDGE`, and its name is the judge's."""
