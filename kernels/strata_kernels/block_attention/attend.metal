// One stream of one row's attention, for all query heads that share a key head; one
// simdgroup each. Stream s takes two listed cells at a time: 2 s and 2 s + 1, then those
// 2 * STREAMS further on. So a cell's numbers are read once for SHARE heads, and cells
// that are left out at the end of a list change no bit.
constexpr int PARTS = (D + 31) / 32;
constexpr int SHARE = HQ / HKV;
uint lane = thread_index_in_simdgroup;
int group = int(threadgroup_position_in_grid.x);
int stream = group % STREAMS;
int kv_head = group / STREAMS % HKV;
int row = group / (STREAMS * HKV);
int first = row * HQ + kv_head * SHARE;
int listed = sizes[0];
float mixed[SHARE * PARTS];
float largest[SHARE];
float total[SHARE];
UNROLLED
for (int h = 0; h < SHARE; h++) {
  largest[h] = -FLOAT_OF(0x7f800000u);
  total[h] = 0.0f;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    mixed[h * PARTS + i] = 0.0f;
  }
}
for (int j = 2 * stream; j < listed; j += 2 * STREAMS) {
  int one = cells[row * listed + j];
  int two = j + 1 < listed ? cells[row * listed + j + 1] : -1;
  bool sees_one = one >= 0;
  bool sees_two = two >= 0;
  if (sees_one || sees_two) {
    int at_one = ((sees_one ? one : two) * HKV + kv_head) * D;
    int at_two = ((sees_two ? two : one) * HKV + kv_head) * D;
    float key_one[PARTS];
    float key_two[PARTS];
    float value_one[PARTS];
    float value_two[PARTS];
    UNROLLED
    for (int i = 0; i < PARTS; i++) {
      int feature = i * 32 + int(lane);
      bool there = feature < D;
      key_one[i] = there ? k[at_one + feature] : 0.0f;
      key_two[i] = there ? k[at_two + feature] : 0.0f;
      value_one[i] = there ? v[at_one + feature] : 0.0f;
      value_two[i] = there ? v[at_two + feature] : 0.0f;
    }
    UNROLLED
    for (int h = 0; h < SHARE; h++) {
      float dot_one = 0.0f;
      float dot_two = 0.0f;
      UNROLLED
      for (int i = 0; i < PARTS; i++) {
        int feature = i * 32 + int(lane);
        float query = feature < D ? q[(first + h) * D + feature] : 0.0f;
        dot_one = FMA(query, key_one[i], dot_one);
        dot_two = FMA(query, key_two[i], dot_two);
      }
      dot_one = lanes_sum(dot_one) * scale[0];
      dot_two = lanes_sum(dot_two) * scale[0];
      float above = largest[h];
      above = sees_one && dot_one > above ? dot_one : above;
      above = sees_two && dot_two > above ? dot_two : above;
      float kept = EXP(largest[h] - above);
      float share_one = sees_one ? EXP(dot_one - above) : 0.0f;
      float share_two = sees_two ? EXP(dot_two - above) : 0.0f;
      total[h] = FMA(total[h], kept, share_one + share_two);
      UNROLLED
      for (int i = 0; i < PARTS; i++) {
        float sum = FMA(share_one, value_one[i], mixed[h * PARTS + i] * kept);
        mixed[h * PARTS + i] = FMA(share_two, value_two[i], sum);
      }
      largest[h] = above;
    }
  }
}
UNROLLED
for (int h = 0; h < SHARE; h++) {
  int out = (first + h) * STREAMS + stream;
  if (lane == 0u) {
    most[out] = largest[h];
    sums[out] = total[h];
  }
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    int feature = i * 32 + int(lane);
    if (feature < D) {
      mixes[out * D + feature] = mixed[h * PARTS + i];
    }
  }
}
