// The streams of one row and query head, joined in their order; one group a head.
constexpr int THREADS = SIMDGROUPS * 32;
uint lane = thread_index_in_simdgroup;
int mine = int(simdgroup_index_in_threadgroup * 32u + lane);
int head = int(threadgroup_position_in_grid.x);
SHARED(float, weight, STREAMS);
float top = most[head * STREAMS];
for (int s = 1; s < STREAMS; s++) {
  float other = most[head * STREAMS + s];
  top = other > top ? other : top;
}
for (int s = mine; s < STREAMS; s += THREADS) {
  weight[s] = EXP(most[head * STREAMS + s] - top);
}
BARRIER();  // every stream's weight is known
float whole = 0.0f;
for (int s = 0; s < STREAMS; s++) {
  whole = FMA(sums[head * STREAMS + s], weight[s], whole);
}
for (int f = mine; f < D; f += THREADS) {
  float sum = 0.0f;
  for (int s = 0; s < STREAMS; s++) {
    sum = FMA(mixes[(head * STREAMS + s) * D + f], weight[s], sum);
  }
  y[head * D + f] = sum / whole;
}
