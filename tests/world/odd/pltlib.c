void lib_nop(void) {}
void lib_other(void) {}
