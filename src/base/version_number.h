// Which weir this is.
#ifndef WEIR_VERSION_NUMBER_H
#define WEIR_VERSION_NUMBER_H

// "0.2.0": what manifests, edit logs and --version name.
extern const char version_number[];

#endif
