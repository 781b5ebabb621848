package intent

import (
	"slices"
	"testing"

	"lazaret/pkg/text"
)

// related relates a call whose arguments have one value to a user who said one text.
func related(said, tool, name, value string) *Relation {
	s := new(Said)
	s.Add(said)
	r := s.Relate(tool, map[string]any{name: value}, text.Analyze(value).Carriers)
	if r == nil {
		return new(Relation)
	}
	return r
}

func TestASiteThatTheUserNamesNamesNoMailAddressAtItsHost(t *testing.T) {
	for _, x := range []struct{ said, tool, name, value string }{
		{"Read https://z4.example and tell me what it says.", "contacts.update", "mail", "audit@z4.example"},
		{"Read https://z4.example/audit and tell me what it says.", "contacts.update", "mail", "audit@z4.example"},
		{"Read https://blog.z4.example/audit-tips and tell me what it says.", "customer.update", "email", "audit@evil.example"},
		{"Please summarise www.z4.example/audit for me.", "customer.update", "email", "audit@z4.example"},
		{"What is on z4.example today?", "profile.update", "reply_to", "Helpdesk <help@z4.example>"},
	} {
		r := related(x.said, x.tool, x.name, x.value)
		if r.Carriers != nil || r.Values != nil || r.Strange == "" {
			t.Errorf("%q: %s %s counts as named: %+v", x.said, x.tool, x.value, r)
		}
	}
}

func TestAMailAddressOrItsOwnerIsStillNamed(t *testing.T) {
	for _, x := range []struct{ said, value string }{
		{"Read https://z4.example and send what it says to audit@z4.example.", "audit@z4.example"},
		{"Read https://z4.example and send what it says to Amy Watson.", "amy.watson@z4.example"},
		{"Send the audit report to the audit team.", "audit@corp.example"},
	} {
		r := related(x.said, "send_email", "to", x.value)
		if !slices.Contains(r.Carriers, "email:"+x.value) {
			t.Errorf("%q: %s does not count as named: %+v", x.said, x.value, r)
		}
	}
}
