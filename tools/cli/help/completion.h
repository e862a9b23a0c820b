// Completion scripts for shells, made from the same tables as --help.
#ifndef WEIR_COMPLETION_H
#define WEIR_COMPLETION_H

#include <stdio.h>

void completion_bash(FILE *to);
void completion_zsh(FILE *to);
void completion_fish(FILE *to);

#endif
