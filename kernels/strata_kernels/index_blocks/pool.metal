// The key of one block that a window completes: the mean of its raw keys, the norm, and
// the rotation at the block's first cell. One simdgroup a block.
constexpr int PARTS = (D + 31) / 32;
uint lane = thread_index_in_simdgroup;
int block = int(threadgroup_position_in_grid.x);
SHARED(float, normed, D);
float pooled[PARTS];
float squares = 0.0f;
UNROLLED
for (int i = 0; i < PARTS; i++) {
  int feature = i * 32 + int(lane);
  float sum = 0.0f;
  for (int c = 0; c < R; c++) {
    sum = sum + (feature < D ? raw[(block * R + c) * D + feature] : 0.0f);
  }
  pooled[i] = sum / float(R);
  squares = FMA(pooled[i], pooled[i], squares);
}
float root = SQRT(lanes_sum(squares) + eps[0]);
UNROLLED
for (int i = 0; i < PARTS; i++) {
  int feature = i * 32 + int(lane);
  if (feature < D) {
    normed[feature] = pooled[i] / root * scale[feature];
  }
}
BARRIER();  // a pair's other half is another lane's
for (int f = int(lane); f < D; f += 32) {
  bool turns = f < DIMS;
  int pair = f < DIMS / 2 ? f + DIMS / 2 : f - DIMS / 2;
  float other = turns ? normed[pair] : 0.0f;
  float along = turns ? cosines[block * DIMS + f] : 1.0f;
  float across = turns ? sines[block * DIMS + f] : 0.0f;
  other = f < DIMS / 2 ? -other : other;
  keys[block * D + f] = FMA(other, across, normed[f] * along);
}
