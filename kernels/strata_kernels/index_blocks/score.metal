// Scores of one block for all rows, one simdgroup a block: relu a head, then the sum.
constexpr int PARTS = (D + 31) / 32;
uint lane = thread_index_in_simdgroup;
int block = int(threadgroup_position_in_grid.x) * SIMDGROUPS + int(simdgroup_index_in_threadgroup);
int blocks = sizes[0];
int there = block < blocks ? block : blocks - 1;
float key[PARTS];
UNROLLED
for (int i = 0; i < PARTS; i++) {
  int feature = i * 32 + int(lane);
  key[i] = feature < D ? keys[there * D + feature] : 0.0f;
}
for (int t = 0; t < ROWS; t++) {
  float sum = 0.0f;
  for (int h = 0; h < HEADS; h++) {
    float dot = 0.0f;
    UNROLLED
    for (int i = 0; i < PARTS; i++) {
      int feature = i * 32 + int(lane);
      float query = feature < D ? queries[(t * HEADS + h) * D + feature] : 0.0f;
      dot = FMA(query, key[i], dot);
    }
    dot = lanes_sum(dot);
    sum = sum + (dot < 0.0f ? 0.0f : dot);
  }
  if (lane == 0u && block < blocks) {
    scores[t * blocks + block] = sum * scale[0];
  }
}
