weir --generate bash | grep -A5 -e "--form)"
