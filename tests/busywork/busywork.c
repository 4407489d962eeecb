/*
 * busywork: SQL functions that cost a known number of rounds of a loop (rounds.h), so that a test knows which change
 * of the sources makes which function slower, and by how much.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "rounds.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(busywork_mix);
PG_FUNCTION_INFO_V1(busywork_fold);
PG_FUNCTION_INFO_V1(busywork_sort);
PG_FUNCTION_INFO_V1(busywork_all);

#define MOST_SORTED 1000

static int	extra_rounds = 0;
static bool fails_at_start = false;

void		_PG_init(void);
uint64		mix_rounds(uint64 state, int rounds);
uint64		fold_text(const char *bytes, int length, int rounds);
int			sort_numbers(int *numbers, int size);

void
_PG_init(void)
{
	DefineCustomIntVariable("busywork.extra_rounds", "Further rounds of busywork_mix().", NULL, &extra_rounds,
							0, 0, 1000000000, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("busywork.fails_at_start", "Crash when the library is loaded.", NULL, &fails_at_start,
							 false, PGC_SUSET, 0, NULL, NULL, NULL);
	if (fails_at_start)
		abort();
}

/* The finalizer of splitmix64, again and again; a function of its own, so that profiles name it. */
pg_noinline uint64
mix_rounds(uint64 state, int rounds)
{
	for (int round = 0; round < rounds; round++)
	{
		state += UINT64CONST(0x9e3779b97f4a7c15);
		state = (state ^ (state >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
		state = (state ^ (state >> 27)) * UINT64CONST(0x94d049bb133111eb);
		state ^= state >> 31;
	}
	return state;
}

/* FNV-1a over the bytes, again and again. */
pg_noinline uint64
fold_text(const char *bytes, int length, int rounds)
{
	uint64		state = UINT64CONST(0xcbf29ce484222325);

	for (int round = 0; round < rounds; round++)
		for (int place = 0; place < length; place++)
			state = (state ^ (unsigned char) bytes[place]) * UINT64CONST(0x100000001b3);
	return state;
}

/* Insertion sort: a cost that grows with the square of the size. Returns the median. */
pg_noinline int
sort_numbers(int *numbers, int size)
{
	for (int place = 1; place < size; place++)
	{
		int			number = numbers[place];
		int			before = place - 1;

		for (; before >= 0 && numbers[before] > number; before--)
			numbers[before + 1] = numbers[before];
		numbers[before + 1] = number;
	}
	return numbers[size / 2];
}

static int
sorted_median(int size)
{
	int			numbers[MOST_SORTED];
	int			median = 0;

	if (size < 1 || size > MOST_SORTED)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("size must be 1 to %d", MOST_SORTED)));
	for (int round = 0; round < SORT_ROUNDS; round++)
	{
		for (int place = 0; place < size; place++)
			numbers[place] = (int) (mix_rounds(place, 1) % 1000000);
		median = sort_numbers(numbers, size);
	}
	return median;
}

Datum
busywork_mix(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) mix_rounds((uint64) PG_GETARG_INT64(0), MIX_ROUNDS + extra_rounds));
}

Datum
busywork_fold(PG_FUNCTION_ARGS)
{
	text	   *value = PG_GETARG_TEXT_PP(0);

	PG_RETURN_INT64((int64) fold_text(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), FOLD_ROUNDS));
}

Datum
busywork_sort(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(sorted_median(PG_GETARG_INT32(0)));
}

/* Some work of each kind, so that one statement passes through all functions. */
Datum
busywork_all(PG_FUNCTION_ARGS)
{
	uint64		state = mix_rounds((uint64) PG_GETARG_INT64(0), MIX_ROUNDS);

	state ^= fold_text((const char *) &state, sizeof(state), FOLD_ROUNDS);
	PG_RETURN_INT64((int64) (state ^ (uint64) sorted_median(100)));
}
