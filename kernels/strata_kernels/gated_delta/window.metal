// A window of ROWS rows: what each reads, the memory after row 0 and after the last.
// One simdgroup holds one of the HV * DV rows of the memory in registers.
constexpr int PARTS = (DK + 31) / 32;
uint lane = thread_index_in_simdgroup;
int place = int(threadgroup_position_in_grid.x) * SIMDGROUPS + int(simdgroup_index_in_threadgroup);
int head = place / DV;
int group = head / (HV / HK);
float memory[PARTS];
float key[PARTS];
float query[PARTS];
load_lanes<PARTS>(memory, state + place * DK, DK, lane);
for (int t = 0; t < ROWS; t++) {
  load_lanes<PARTS>(key, k + (t * HK + group) * DK, DK, lane);
  load_lanes<PARTS>(query, q + (t * HK + group) * DK, DK, lane);
  take_row<PARTS>(memory, key, v[t * HV * DV + place], decay[t * HV + head],
                  beta[t * HV + head]);
  float read = dot_lanes<PARTS>(memory, query);
  if (lane == 0u) {
    y[t * HV * DV + place] = read;
  }
  if (t == 0) {
    store_lanes<PARTS>(root + place * DK, memory, DK, lane);
  }
}
store_lanes<PARTS>(last + place * DK, memory, DK, lane);
