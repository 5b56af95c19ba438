// The best K complete blocks of one row, ascending; one group a row. The K-th largest
// score is found bit by bit, then each simdgroup writes what its own stretch of blocks
// holds; no two threads ever add to one number.
uint lane = thread_index_in_simdgroup;
int team = int(simdgroup_index_in_threadgroup);
int row = int(threadgroup_position_in_grid.x);
SHARED(int, counted, TEAMS);
SHARED(int, above, TEAMS);
SHARED(int, level, TEAMS);
SHARED(int, odd, TEAMS);
int blocks = sizes[0];
int have = complete[row];
int stretch = (have + TEAMS * 32 - 1) / (TEAMS * 32) * 32;
int first = team * stretch;
int end = first + stretch < have ? first + stretch : have;
uint threshold = 0u;
for (int bit = 31; bit >= 0; bit--) {
  uint candidate = threshold | (1u << bit);
  int mine = 0;
  for (int j = first + int(lane); j < end; j += 32) {
    mine = key_of(scores[row * blocks + j]) >= candidate ? mine + 1 : mine;
  }
  mine = lanes_add(mine);
  if (lane == 0u) {
    counted[team] = mine;
  }
  BARRIER();  // counted
  int total = 0;
  for (int s = 0; s < TEAMS; s++) {
    total = total + counted[s];
  }
  threshold = total >= K ? candidate : threshold;
  BARRIER();  // read
}
int greater = 0;
int equal = 0;
uint bad = 0u;
for (int j = first + int(lane); j < end; j += 32) {
  float score = scores[row * blocks + j];
  uint key = key_of(score);
  greater = key > threshold ? greater + 1 : greater;
  equal = key == threshold ? equal + 1 : equal;
  bad = (BITS(score) & 0x7f800000u) == 0x7f800000u ? 1u : bad;
}
greater = lanes_add(greater);
equal = lanes_add(equal);
bad = lanes_or(bad);
if (lane == 0u) {
  above[team] = greater;
  level[team] = equal;
  odd[team] = int(bad);
}
BARRIER();  // each stretch is known
int quota = K;
for (int s = 0; s < TEAMS; s++) {
  quota = quota - above[s];
}
// Equals are taken from the lowest block on, while the quota lasts.
int place = 0;
int share = 0;
int taken = 0;
int doubts = 0;
for (int s = 0; s < TEAMS; s++) {
  int granted = quota < level[s] ? quota : level[s];
  place = s == team ? taken : place;
  share = s == team ? granted : share;
  taken = taken + above[s] + granted;
  quota = quota - granted;
  doubts = doubts + odd[s];
}
int seen = 0;
for (int j = first; j < end; j += 32) {
  int block = j + int(lane);
  uint key = block < end ? key_of(scores[row * blocks + block]) : 0u;
  bool is_level = block < end && key == threshold;
  uint levels = lanes_that(is_level, lane);
  bool granted = is_level && seen + ones_before(levels, lane) < share;
  bool takes = granted || (block < end && key > threshold);
  uint those = lanes_that(takes, lane);
  if (takes) {
    chosen[row * K + place + ones_before(those, lane)] = block;
  }
  seen = seen + ones(levels);
  place = place + ones(those);
}
for (int j = taken + team * 32 + int(lane); j < K; j += TEAMS * 32) {
  chosen[row * K + j] = blocks;
}
if (team == 0 && lane == 0u) {
  doubt[row] = doubts > 0 ? FLOAT_OF(0x7fc00000u) : 0.0f;
}
