static volatile unsigned long sink;

void lib_work(unsigned long n)
{
	unsigned long s = 7;
	for (unsigned long i = 0; i < n; i++)
		s = s * 2862933555777941757UL + (s >> 31);
	sink += s;
}
