/* The timeline's page as it was built in: page.html, its style and its scripts. Each ends in NUL.
 * The page holds marks between two @, which timeline.c fills in. Inside sim/report/ only. */
#pragma once

extern const unsigned char lh_sim_page[], lh_sim_page_style[], lh_sim_page_script[];
