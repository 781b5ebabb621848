package approval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
)

func newOrder(do Do) *Order {
	o := NewOrder(do, "acme", now, 10*time.Minute)
	o.Incident, o.Reason = "i1", "because"
	switch do {
	case OpenIncident:
		o.Incident, o.Title, o.Severity = IncidentID(o.Nonce), "a case", "high"
	case AddEvidence:
		o.Finding = []beliefs.IncidentFinding{{Kind: "belief", ID: "b1"}}
	case Disclose:
		o.Incident, o.Recall = "", &Recall{Query: "shoes", Beliefs: []string{"b1"}}
	case TakePoint, Restore:
		o.Incident, o.Point = "", "p1"
	case QuarantineIncident:
		o.Scope = &beliefs.IncidentScope{Source: "https://shop.example", Since: now}
	}
	return o
}

// TestWhoMayGiveWhichOrder judges every order with keys of every role. Only the approver role and the roles in the
// table orders may give an order.
func TestWhoMayGiveWhichOrder(t *testing.T) {
	trust := new(keys.Trust)
	for _, role := range append([]keys.Role{keys.ApproverPrefix + "finance"}, keys.Roles...) {
		by := signerOf(t, trust, "k"+strings.ReplaceAll(string(role), ":", "-"), "", role)
		for do, also := range orders {
			msg, err := newOrder(do).Sign(by)
			if err != nil {
				t.Fatalf("%s: %v", do, err)
			}
			s, err := OpenOrder(msg, trust)
			if err != nil {
				t.Fatalf("%s: %v", do, err)
			}
			may := role == keys.RoleApprover
			for _, r := range also {
				may = may || r == role
			}
			err = s.Judge(&OrderCase{Project: "acme", Now: now})
			if may && err != nil || !may && !errors.Is(err, &Error{Check: CheckRole}) {
				t.Errorf("%s by %s: %v", do, role, err)
			}
			// A policy may require a narrower role than approver. A key with the role approver is then refused.
			err = s.Judge(&OrderCase{Project: "acme", Now: now, Role: keys.ApproverPrefix + "finance"})
			if narrow := role == keys.ApproverPrefix+"finance"; narrow && err != nil || role == keys.RoleApprover &&
				len(also) == 0 && err == nil {
				t.Errorf("%s by %s, where finance has to approve: %v", do, role, err)
			}
		}
	}
}

func TestEachFailureOfAnOrderHasItsCheck(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	bot := signerOf(t, trust, "bot", "acme/bot", keys.RoleApprover)
	o := newOrder(QuarantineIncident)
	for what, c := range map[string]struct {
		is   OrderCase
		want Check
	}{
		"nothing wrong":   {OrderCase{Project: "acme", Now: now}, ""},
		"another project": {OrderCase{Project: "other", Now: now}, CheckOrder},
		"used":            {OrderCase{Project: "acme", Now: now, Used: true}, CheckReplayed},
		"expired":         {OrderCase{Project: "acme", Now: o.Expires}, CheckExpired},
		"good too long":   {OrderCase{Project: "acme", Now: now.Add(-MaxLife)}, CheckExpired},
	} {
		msg, err := o.Sign(alice)
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenOrder(msg, trust)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Judge(&c.is); c.want == "" && err != nil || c.want != "" && !errors.Is(err, &Error{Check: c.want}) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	msg, err := o.Sign(bot)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenOrder(msg, trust)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Judge(&OrderCase{Project: "acme", Now: now}); !errors.Is(err, &Error{Check: CheckSelf}) {
		t.Errorf("an agent's own key: %v", err)
	}
	if _, err := OpenOrder([]byte(strings.Replace(string(msg), "shop", "shot", 1)), trust); !errors.Is(err,
		&Error{Check: CheckSignature}) {
		t.Errorf("altered: %v", err)
	}
	// A statement for another purpose does not open as an order, and an order does not open as
	// another statement.
	if _, err := OpenOrder(sign(t, statement(), alice), trust); !errors.Is(err, &Error{Check: CheckForm}) {
		t.Errorf("a resolution: %v", err)
	}
	if _, err := OpenBelief(msg, trust); !errors.Is(err, &Error{Check: CheckForm}) {
		t.Errorf("an order as a word on a belief: %v", err)
	}
}

func TestAnOrderThatCannotBeMeantIsNotSigned(t *testing.T) {
	alice := signerOf(t, new(keys.Trust), "alice", "")
	for what, o := range map[string]*Order{
		"unknown":                newOrder("incident-forget"),
		"no title":               {},
		"another's id":           newOrder(OpenIncident),
		"no severity":            newOrder(OpenIncident),
		"empty scope":            newOrder(QuarantineIncident),
		"a scope too much":       newOrder(CloseIncident),
		"no report":              newOrder(CloseIncident),
		"no evidence":            newOrder(AddEvidence),
		"evidence of the ledger": newOrder(AddEvidence),
		"a line break":           newOrder(RepairIncident),
		"too many beliefs":       newOrder(QuarantineIncident),
		"a recall of nothing":    newOrder(Disclose),
		"a recall for no reason": newOrder(Disclose),
		"a recall of too much":   newOrder(Disclose),
	} {
		switch what {
		case "no title":
			*o = *newOrder(OpenIncident)
			o.Title = ""
		case "another's id":
			o.Incident = "i1"
		case "no severity":
			o.Severity = ""
		case "empty scope":
			o.Scope = &beliefs.IncidentScope{Descendants: true}
		case "a scope too much":
			o.Scope = &beliefs.IncidentScope{Source: "x"}
		case "no report":
			o.Reason = ""
		case "no evidence":
			o.Finding = nil
		case "evidence of the ledger":
			o.Finding[0].Entry = 7
		case "a line break":
			o.Reason = "fine\n— mallory"
		case "a recall of nothing":
			o.Recall = &Recall{Limit: 3}
		case "a recall for no reason":
			o.Reason = ""
		case "a recall of too much":
			o.Recall.Limit = MaxDisclosed + 1
		case "too many beliefs":
			o.Scope.Beliefs = make([]string, MaxOrderBeliefs+1)
		}
		if _, err := o.Sign(alice); !errors.Is(err, &Error{Check: CheckForm}) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzOpenOrder(f *testing.F) {
	trust := new(keys.Trust)
	by := signerOf(f, trust, "alice", "", keys.RoleApprover)
	for do := range orders {
		msg, err := newOrder(do).Sign(by)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		s, err := OpenOrder(msg, trust)
		var refused *Error
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("an error that is no *Error: %v", err)
		}
		if err == nil {
			if again, err := s.Sign(by); err != nil || string(again) != string(msg) {
				t.Fatalf("%q opens and is not what is signed: %v", msg, err)
			}
		}
	})
}
