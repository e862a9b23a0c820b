weir convert --help-all
