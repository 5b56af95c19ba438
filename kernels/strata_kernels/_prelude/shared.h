// Helpers of all kernels. Sums and choices go through one butterfly, so that their
// order is the same on every target; all 32 lanes take part.

HELPER float lanes_sum(float value) {
  value = value + SHUFFLE_XOR(value, 16);
  value = value + SHUFFLE_XOR(value, 8);
  value = value + SHUFFLE_XOR(value, 4);
  value = value + SHUFFLE_XOR(value, 2);
  value = value + SHUFFLE_XOR(value, 1);
  return value;
}

HELPER float lanes_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    float other = SHUFFLE_XOR(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

HELPER uint lanes_or(uint value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    uint other = SHUFFLE_XOR(value, mask);
    value = value | other;
  }
  return value;
}

// Numbers that compare as floats do: 0 for no number, both zeros alike.
HELPER uint key_of(float value) {
  uint bits = BITS(value);
  uint size = bits & 0x7fffffffu;
  uint key = (bits & 0x80000000u) != 0u ? 0x80000000u - size : 0x80000000u + size;
  return size > 0x7f800000u ? 0u : key;
}

HELPER int lanes_add(int value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    int other = SHUFFLE_XOR(value, mask);
    value = value + other;
  }
  return value;
}

// One bit a lane: those whose `flag` is set.
HELPER uint lanes_that(bool flag, uint lane) {
  return lanes_or(flag ? 1u << lane : 0u);
}

HELPER int ones(uint bits) {
  bits = bits - ((bits >> 1) & 0x55555555u);
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0fu;
  return int((bits * 0x01010101u) >> 24);
}

// Lanes before this one whose bit is set.
HELPER int ones_before(uint bits, uint lane) { return ones(bits & ((1u << lane) - 1u)); }

// The lane's part of a set of numbers below `count`: bit i stands for i * 32 + lane.
HELPER uint every_one(int count, uint lane) {
  int whole = count / 32;
  uint more = int(lane) < count % 32 ? 1u : 0u;
  uint bits = whole == 32 ? 0xffffffffu : (1u << whole) - 1u;
  return whole == 32 ? bits : bits | (more << whole);
}

HELPER bool is_mine(uint number, uint lane) { return (number & 31u) == lane; }

HELPER uint bit_of(uint number) { return 1u << (number >> 5); }

// Of the numbers in `open`, the one with the largest (high, low); the lowest of equals.
// 0xffffffff when `open` is empty.
template <int PARTS>
HELPER uint strongest(THREAD const uint* high, THREAD const uint* low, uint open, uint lane) {
  uint best_high = 0u;
  uint best_low = 0u;
  uint best = 0xffffffffu;
  UNROLLED
  for (int i = 0; i < PARTS; i++) {
    bool above = high[i] > best_high || (high[i] == best_high && low[i] > best_low);
    if (((open >> i) & 1u) != 0u && (best == 0xffffffffu || above)) {
      best_high = high[i];
      best_low = low[i];
      best = uint(i) * 32u + lane;
    }
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    uint other_high = SHUFFLE_XOR(best_high, mask);
    uint other_low = SHUFFLE_XOR(best_low, mask);
    uint other = SHUFFLE_XOR(best, mask);
    bool level = other_high == best_high && other_low == best_low;
    bool above = other_high > best_high || (other_high == best_high && other_low > best_low);
    bool wins = above || (level && other < best);
    if (other != 0xffffffffu && (best == 0xffffffffu || wins)) {
      best_high = other_high;
      best_low = other_low;
      best = other;
    }
  }
  return best;
}

// The `count` strongest of `open`, as a set.
template <int PARTS>
HELPER uint strongest_ones(THREAD const uint* high, THREAD const uint* low, uint open,
                           int count, uint lane) {
  uint left = open;
  ROLLED
  for (int r = 0; r < count; r++) {
    uint best = strongest<PARTS>(high, low, left, lane);
    if (best != 0xffffffffu && is_mine(best, lane)) {
      left = left & ~bit_of(best);
    }
  }
  return open & ~left;
}
