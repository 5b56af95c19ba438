// Unfused, the second half: the union of all rows' experts, ascending; the place of
// each choice in it; and a slot for each, its own or one that nobody in it has.
constexpr int PARTS = (E + 31) / 32;
constexpr int COUNT = ROWS * K;
uint lane = thread_index_in_simdgroup;
SHARED(int, position, E);
SHARED(uint, member, 32);
SHARED(int, usable, COUNT);
uint used = 0u;
for (int j = 0; j < COUNT; j++) {
  uint expert = uint(ids[j]);
  used = is_mine(expert, lane) ? used | bit_of(expert) : used;
}
member[lane] = used;
BARRIER();
int found = 0;
for (int j = 0; j < SLOTS; j += 32) {
  int at = j + int(lane);
  int slot = at < SLOTS ? order[at] : 0;
  int had = at < SLOTS ? owner[slot] : 0;
  bool kept = had < 0 ? false : (member[had & 31] & bit_of(uint(had))) != 0u;
  bool free = at < SLOTS && !kept;
  uint those = lanes_that(free, lane);
  int rank = found + ones_before(those, lane);
  if (free && rank < COUNT) {
    usable[rank] = slot;
  }
  found = found + ones(those);
}
BARRIER();
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
  if (is) {
    position[expert] = at;
    members[at] = expert;
    slot_of[at] = own >= 0 ? own : (miss < found ? usable[miss] : -1);
  }
  size = size + ones(those);
  misses = misses + ones(cold);
}
BARRIER();
for (int j = int(lane); j < COUNT; j += 32) {
  place[j] = position[ids[j]];
  if (j >= size) {
    members[j] = E;
    slot_of[j] = -1;
  }
}
if (lane == 0u) {
  counts[0] = size;
  counts[1] = misses;
}
