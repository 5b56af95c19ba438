// Unfused, the first half: rows FIRST and on, one a group. Of drafts under a budget,
// `root` holds what an earlier launch chose for row 0.
constexpr int PARTS = (E + 31) / 32;
uint lane = thread_index_in_simdgroup;
int out = int(threadgroup_position_in_grid.x);
int row = FIRST + out;
float logit[PARTS];
uint natural[PARTS];
load_logits<PARTS>(logit, natural, logits + row * E, E, lane);
uint every = every_one(E, lane);
int kind = none_among(logits, TOTAL * E, lane) ? 0 : int(settings[0]);
uint chosen = strongest_ones<PARTS>(natural, natural, every, K, lane);
if (kind == 1) {
  Competition rule;
  rule.protect = int(settings[row == 0 ? 1 : 4]);
  rule.bonus = settings[row == 0 ? 2 : 5];
  rule.second = settings[row == 0 ? 3 : 6];
  uint there = ready_ones<PARTS>(ready, E, lane);
  chosen = compete<PARTS>(logit, natural, every, there, rule, K, lane);
}
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
    ids[out * K + r] = int(expert);
    weights[out * K + r] = weight_of<PARTS>(logit, expert, shares, RENORMALISE != 0);
  }
}
