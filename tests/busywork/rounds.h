/* How much work each function does: tests plant a change of speed by changing one of these. */
#define MIX_ROUNDS 20000
#define FOLD_ROUNDS 2000
#define SORT_ROUNDS 20
