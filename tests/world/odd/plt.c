/* Nothing but calls of two empty functions of a library, through the linkage table. */
void lib_nop(void);
void lib_other(void);

int main(int count, char **words)
{
    (void)words;
    for (long i = 0; i < 120000000L / count; i++) {
        lib_nop();
        lib_nop();
        lib_other();
    }
    return 0;
}
