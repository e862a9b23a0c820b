// The tables of commands and options as one JSON document (docs/schema/tables.json): for programs that
// make something of them, as packaging/python does.
#ifndef WEIR_TABLES_H
#define WEIR_TABLES_H

#include "json/json.h"

// The whole document. json_done frees it.
void tables_write(struct json_out *j);

#endif
