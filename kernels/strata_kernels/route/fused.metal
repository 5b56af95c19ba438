// All in one launch: row t is chosen by simdgroup t; the root's experts are complete
// before any draft reads them; then simdgroup 0 makes the union and the plan.
constexpr int PARTS = (E + 31) / 32;
constexpr int COUNT = ROWS * K;
uint lane = thread_index_in_simdgroup;
int row = int(simdgroup_index_in_threadgroup);
SHARED(int, root, K);
SHARED(int, all, COUNT);
SHARED(int, position, E);
SHARED(uint, member, 32);
SHARED(int, usable, COUNT);
float logit[PARTS];
uint natural[PARTS];
load_logits<PARTS>(logit, natural, logits + row * E, E, lane);
uint every = every_one(E, lane);
int kind = none_among(logits, ROWS * E, lane) ? 0 : int(settings[0]);
uint chosen = strongest_ones<PARTS>(natural, natural, every, K, lane);
if (kind == 1) {
  Competition rule;
  rule.protect = int(settings[row == 0 ? 1 : 4]);
  rule.bonus = settings[row == 0 ? 2 : 5];
  rule.second = settings[row == 0 ? 3 : 6];
  uint there = ready_ones<PARTS>(ready, E, lane);
  chosen = compete<PARTS>(logit, natural, every, there, rule, K, lane);
}
if (row == 0) {
  uint left = chosen;
  ROLLED
  for (int r = 0; r < K; r++) {
    uint expert = strongest<PARTS>(natural, natural, left, lane);
    if (is_mine(expert, lane)) {
      left = left & ~bit_of(expert);
      root[r] = int(expert);
    }
  }
}
BARRIER();  // the root is complete
if (kind == 2 && row > 0) {
  uint open = ready_ones<PARTS>(ready, E, lane);
  ROLLED
  for (int r = 0; r < K; r++) {
    open = with_anchor(open, uint(root[r]), r, int(settings[7]), lane);
  }
  ROLLED
  for (int r = 0; r < K; r++) {
    open = with_spare(open, uint(root[r]), K, lane);
  }
  chosen = strongest_ones<PARTS>(natural, natural, open, K, lane);
}
Shares shares = shares_of<PARTS>(logit, every, chosen, lane);
ROLLED
for (int r = 0; r < K; r++) {
  uint expert = strongest<PARTS>(natural, natural, chosen, lane);
  if (is_mine(expert, lane)) {
    chosen = chosen & ~bit_of(expert);
    all[row * K + r] = int(expert);
    ids[row * K + r] = int(expert);
    weights[row * K + r] = weight_of<PARTS>(logit, expert, shares, RENORMALISE != 0);
  }
}
BARRIER();  // all rows are complete
uint used = 0u;
for (int j = 0; j < COUNT; j++) {
  uint expert = uint(all[j]);
  used = is_mine(expert, lane) ? used | bit_of(expert) : used;
}
if (row == 0) {
  member[lane] = used;
}
BARRIER();  // the union is complete
int found = 0;
for (int j = 0; j < SLOTS; j += 32) {
  int at = j + int(lane);
  int slot = at < SLOTS ? order[at] : 0;
  int had = at < SLOTS ? owner[slot] : 0;
  bool kept = had < 0 ? false : (member[had & 31] & bit_of(uint(had))) != 0u;
  bool free = at < SLOTS && !kept;
  uint those = lanes_that(free, lane);
  int rank = found + ones_before(those, lane);
  if (row == 0 && free && rank < COUNT) {
    usable[rank] = slot;
  }
  found = found + ones(those);
}
BARRIER();  // slots to take are listed
int size = 0;
int misses = 0;
UNROLLED
for (int i = 0; i < PARTS; i++) {
  int expert = i * 32 + int(lane);
  bool is = ((used >> i) & 1u) != 0u;
  int own = is ? slots[expert] : -1;
  uint those = lanes_that(is, lane);
  uint cold = lanes_that(is && own < 0, lane);
  int at = size + ones_before(those, lane);
  int miss = misses + ones_before(cold, lane);
  if (row == 0 && is) {
    position[expert] = at;
    members[at] = expert;
    slot_of[at] = own >= 0 ? own : (miss < found ? usable[miss] : -1);
  }
  size = size + ones(those);
  misses = misses + ones(cold);
}
BARRIER();  // positions are written
if (row == 0) {
  for (int j = int(lane); j < COUNT; j += 32) {
    place[j] = position[all[j]];
    if (j >= size) {
      members[j] = E;
      slot_of[j] = -1;
    }
  }
  if (lane == 0u) {
    counts[0] = size;
    counts[1] = misses;
  }
}
