package arbiter

import (
	"encoding/binary"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// keyRate maps a project and an agent to the times at which its last actions were held, eight bytes
// each, oldest first.
const keyRate = 'q'

// allHolds times Policy.MaxOpenHolds is the maximum number of open holds of an agent. MaxOpenHolds itself is the
// maximum for one tool in one session.
const allHolds = 10

// overBudget returns a reason to deny a proposal instead of holding it, or nil. There are three reasons: the agent has
// too many open holds of this tool in this session, it has too many open holds in all, or too many of its actions were
// held within the last minute. The limit for one tool is per session, so that one session cannot use up the budget of
// another.
func overBudget(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) (*streams.Reason, error) {
	if pol == nil {
		return nil, nil
	}
	alike, err := openHolds(st, alikeKey(p.Project, p.Agent, p.Session, p.Tool))
	if err != nil {
		return nil, err
	}
	if alike >= pol.MaxOpenHolds {
		return &streams.Reason{Code: streams.CodeHoldBudget, Verdict: streams.Deny,
			Text: fmt.Sprintf("agent %s has %d holds of %s open in this session, the policy admits %d", p.Agent, alike,
				streams.Clip(p.Tool, 100), pol.MaxOpenHolds)}, nil
	}
	all, err := openHolds(st, agentKey(p.Project, p.Agent))
	if err != nil {
		return nil, err
	}
	if all >= allHolds*pol.MaxOpenHolds {
		return &streams.Reason{Code: streams.CodeHoldBudget, Verdict: streams.Deny,
			Text: fmt.Sprintf("agent %s has %d holds open, in all the policy admits %d", p.Agent, all,
				allHolds*pol.MaxOpenHolds)}, nil
	}
	if pol.MaxHoldsPerMinute == 0 {
		return nil, nil
	}
	times, err := recentHolds(st, p, now)
	if err != nil || len(times)/8 < pol.MaxHoldsPerMinute {
		return nil, err
	}
	return &streams.Reason{Code: streams.CodeHoldRate, Verdict: streams.Deny,
		Text: fmt.Sprintf("agent %s had %d actions held within a minute, the policy admits %d", p.Agent, len(times)/8,
			pol.MaxHoldsPerMinute)}, nil
}

// recentHolds returns the ledger times at which actions of the proposal's agent were held in the last minute, as stored
// under keyRate.
func recentHolds(st *stage.State, p *proposal, now time.Time) ([]byte, error) {
	v, _, err := st.Get(stage.Key(keyRate, p.Project, p.Agent))
	if err != nil {
		return nil, err
	}
	since := now.Add(-time.Minute).UnixNano()
	for len(v) >= 8 && int64(binary.BigEndian.Uint64(v)) <= since {
		v = v[8:]
	}
	return append([]byte(nil), v...), nil
}

// noteHold records that an action was held now. At most MaxHoldsPerMinute times are stored.
func noteHold(st *stage.State, p *proposal, pol *policy.Policy, now time.Time) error {
	if pol == nil || pol.MaxHoldsPerMinute == 0 || p.Type != streams.TypeAction {
		return nil
	}
	times, err := recentHolds(st, p, now)
	if err != nil {
		return err
	}
	times = binary.BigEndian.AppendUint64(times, uint64(now.UnixNano()))
	if over := len(times) - 8*pol.MaxHoldsPerMinute; over > 0 {
		times = times[over:]
	}
	return st.Set(stage.Key(keyRate, p.Project, p.Agent), times)
}
