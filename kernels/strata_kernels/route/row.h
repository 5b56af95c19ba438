// Choosing the experts of one row with one simdgroup: lane l holds the experts l,
// l + 32, ... and its part of each set of experts is a mask with a bit for each.
//
// settings: 0 kind (0 natural, 1 bonus, 2 budget); of the root 1 protect, 2 bonus,
// 3 bonus of its second; of drafts 4, 5, 6 the same; 7 anchors.

struct Competition {
  int protect;
  float bonus;
  float second;
};

HELPER bool not_finite(float value) {
  return (BITS(value) & 0x7f800000u) == 0x7f800000u;
}

template <int PARTS>
HELPER void load_logits(THREAD float* logit, THREAD uint* natural, DEVICE const float* row,
                        int experts, uint lane) {
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    int expert = i * 32 + int(lane);
    logit[i] = expert < experts ? row[expert] : 0.0f;
    natural[i] = key_of(logit[i]);
  }
}

// Whether any logit of the window is none: then nothing can be planned, and all rows
// choose naturally.
HELPER bool none_among(DEVICE const float* logits, int count, uint lane) {
  uint bad = 0u;
  for (int i = int(lane); i < count; i += 32) {
    bad = bad | (not_finite(logits[i]) ? 1u : 0u);
  }
  return lanes_or(bad) != 0u;
}

template <int PARTS>
HELPER uint ready_ones(DEVICE const int* ready, int experts, uint lane) {
  uint found = 0u;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    int expert = i * 32 + int(lane);
    bool is = expert < experts ? ready[expert] != 0 : false;
    found = found | (is ? 1u << i : 0u);
  }
  return found;
}

// The strongest `protect` before any bonus; then ready experts have `bonus` on their
// logits, and the second strongest at least `second`. A sum is kept with what its
// rounding lost, so that no two of them become equal.
template <int PARTS>
HELPER uint compete(THREAD const float* logit, THREAD const uint* natural, uint every,
                    uint ready, Competition rule, int top_k, uint lane) {
  int protect = rule.protect < top_k ? rule.protect : top_k;
  uint first = strongest_ones<PARTS>(natural, natural, every, 1, lane);
  uint second = strongest_ones<PARTS>(natural, natural, every & ~first, 1, lane);
  uint safe = strongest_ones<PARTS>(natural, natural, every, protect, lane);
  uint high[PARTS];
  uint low[PARTS];
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    float bonus = ((ready >> i) & 1u) != 0u ? rule.bonus : 0.0f;
    bool is_second = ((second >> i) & 1u) != 0u;
    bonus = is_second && rule.second > bonus ? rule.second : bonus;
    float sum = logit[i] + bonus;
    float back = sum - logit[i];
    float lost = (logit[i] - (sum - back)) + (bonus - back);
    bool is_safe = ((safe >> i) & 1u) != 0u;
    high[i] = is_safe ? 0xffffffffu : key_of(sum);
    low[i] = is_safe ? 0xffffffffu : key_of(lost);
  }
  return strongest_ones<PARTS>(high, low, every, top_k, lane);
}

// `open` with one of the root's experts: the r-th, while r is below `anchors`.
HELPER uint with_anchor(uint open, uint expert, int r, int anchors, uint lane) {
  bool joins = is_mine(expert, lane) && r < anchors;
  return joins ? open | bit_of(expert) : open;
}

// `open` with one of the root's experts, if it has fewer than `least`.
HELPER uint with_spare(uint open, uint expert, int least, uint lane) {
  int size = lanes_add(ones(open));
  bool joins = is_mine(expert, lane) && size < least;
  return joins ? open | bit_of(expert) : open;
}

struct Shares {
  float largest;
  float total;
  float chosen;
};

template <int PARTS>
HELPER Shares shares_of(THREAD const float* logit, uint every, uint chosen, uint lane) {
  Shares found;
  float largest = -FLOAT_OF(0x7f800000u);
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    bool counts = ((every >> i) & 1u) != 0u && logit[i] > largest;
    largest = counts ? logit[i] : largest;
  }
  found.largest = lanes_max(largest);
  float total = 0.0f;
  float some = 0.0f;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    float share = EXP(logit[i] - found.largest);
    total = ((every >> i) & 1u) != 0u ? total + share : total;
    some = ((chosen >> i) & 1u) != 0u ? some + share : some;
  }
  found.total = lanes_sum(total);
  found.chosen = lanes_sum(some);
  return found;
}

template <int PARTS>
HELPER float weight_of(THREAD const float* logit, uint expert, Shares shares,
                       bool renormalise) {
  float mine = 0.0f;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    mine = uint(i) == (expert >> 5) ? logit[i] : mine;
  }
  float share = EXP(mine - shares.largest) / shares.total;
  return renormalise ? share / (shares.chosen / shares.total) : share;
}
