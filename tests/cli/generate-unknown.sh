weir --generate tcsh
