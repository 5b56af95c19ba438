// The memory after rows span[0] to span[1] - 1, as the window's kernel takes them in;
// nothing is read. The span is a value, no part of the launch.
constexpr int PARTS = (DK + 31) / 32;
uint lane = thread_index_in_simdgroup;
int place = int(threadgroup_position_in_grid.x) * SIMDGROUPS + int(simdgroup_index_in_threadgroup);
int head = place / DV;
int group = head / (HV / HK);
int first = span[0];
int end = span[1];
float memory[PARTS];
float key[PARTS];
load_lanes<PARTS>(memory, state + place * DK, DK, lane);
for (int t = first; t < end; t++) {
  load_lanes<PARTS>(key, k + (t * HK + group) * DK, DK, lane);
  take_row<PARTS>(memory, key, v[t * HV * DV + place], decay[t * HV + head],
                  beta[t * HV + head]);
}
store_lanes<PARTS>(last + place * DK, memory, DK, lane);
