// One row of the gated delta rule for one row S of the memory, spread over 32 lanes:
// lane l holds features l, l + 32, ... of S, of the key and of the query.

template <int PARTS>
HELPER void load_lanes(THREAD float* into, DEVICE const float* from, int size, uint lane) {
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    int feature = i * 32 + int(lane);
    into[i] = feature < size ? from[feature] : 0.0f;
  }
}

template <int PARTS>
HELPER float dot_lanes(THREAD const float* a, THREAD const float* b) {
  float sum = 0.0f;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    sum = FMA(a[i], b[i], sum);
  }
  return lanes_sum(sum);
}

// S <- decay * S;  S <- S + beta * (value - S . key) * key
template <int PARTS>
HELPER void take_row(THREAD float* memory, THREAD const float* key, float value,
                     float decay, float beta) {
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    memory[i] = memory[i] * decay;
  }
  float error = value - dot_lanes<PARTS>(memory, key);
  float change = beta * error;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    memory[i] = FMA(change, key[i], memory[i]);
  }
}

template <int PARTS>
HELPER void store_lanes(DEVICE float* into, THREAD const float* from, int size, uint lane) {
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    int feature = i * 32 + int(lane);
    if (feature < size) {
      into[feature] = from[i];
    }
  }
}
