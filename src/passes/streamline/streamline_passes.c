// The list of what rules cannot say of the families factorize, unbroadcast, reorder and eliminate.
#include "passes/streamline/inside/streamline.h"

const struct pass *const streamline_passes[] = {&streamline_unbroadcast, &streamline_past_split,
                                                &streamline_past_concat, &streamline_split_past,
                                                NULL};
