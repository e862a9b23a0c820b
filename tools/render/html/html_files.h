// The style and the script of pages, as page.css and page.js have them, with the words by which a
// Content-Security-Policy allows them and nothing else (embed_page.py).
#ifndef WEIR_HTML_FILES_H
#define WEIR_HTML_FILES_H

// Lines with their ends; NULL ends them.
extern const char *const html_page_css[], *const html_page_js[];
extern const char html_page_css_hash[], html_page_js_hash[];

#endif
