package approval

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
)

// OrderVersion begins every signed order.
const OrderVersion = "lazaret/order/v1"

// Do is the action that an order asks for.
type Do string

// The orders.
const (
	OpenIncident       Do = "incident-open"
	AddEvidence        Do = "incident-evidence"
	QuarantineIncident Do = "incident-quarantine"
	RepairIncident     Do = "incident-repair"
	CloseIncident      Do = "incident-close"
	TakePoint          Do = "point"   // take a restore point
	Restore            Do = "restore" // roll back to a restore point
	// Disclose asks for all matching beliefs, in any state. They are only for inspection (a privileged recall).
	Disclose Do = "disclosure"
)

// orders has, for each order, the roles that may give it. In addition, the policy's approver role may give every order.
var orders = map[Do][]keys.Role{
	OpenIncident:       {keys.RoleOperator, keys.RoleAuditor, keys.RoleProbe},
	AddEvidence:        {keys.RoleOperator, keys.RoleAuditor, keys.RoleProbe},
	QuarantineIncident: nil,
	RepairIncident:     nil,
	CloseIncident:      nil,
	TakePoint:          {keys.RoleOperator},
	Restore:            nil,
	Disclose:           {keys.RoleAuditor},
}

// Order is a signed order that may affect more than one belief. It is about an incident or a restore point, or it asks
// for a disclosure. Judge checks whether the signer may give it. The ledger records its effects.
type Order struct {
	Do      Do        `json:"do"`
	Expires time.Time `json:"expires"` // whole seconds, UTC
	// Incident is the id of the incident. If the order opens a new incident, it must be IncidentID of the nonce.
	Incident string `json:"incident,omitzero"`
	// Key, Severity and Title describe a new incident.
	Key      string                    `json:"key,omitzero"`
	Nonce    string                    `json:"nonce"`          // hex
	Point    string                    `json:"point,omitzero"` // name of a restore point
	Project  string                    `json:"project"`
	Reason   string                    `json:"reason,omitzero"`
	Recall   *Recall                   `json:"recall,omitzero"` // beliefs to disclose
	Scope    *beliefs.IncidentScope    `json:"scope,omitzero"`  // beliefs to quarantine
	Severity string                    `json:"severity,omitzero"`
	Finding  []beliefs.IncidentFinding `json:"evidence,omitzero"`
	Title    string                    `json:"title,omitzero"`
	Version  string                    `json:"v"`
}

// Recall selects beliefs of a project: those with the given ids, or those that match query and key.
type Recall struct {
	Beliefs []string `json:"beliefs,omitzero"`
	Key     string   `json:"key,omitzero"`
	Query   string   `json:"query,omitzero"`
	Limit   int      `json:"limit,omitzero"` // 1 to 100; zero: 10
}

// Limits of an order.
const (
	MaxDisclosed     = 100 // beliefs
	MaxOrderBeliefs  = 64
	MaxOrderEvidence = 8
	MaxOrderKey      = 128 // bytes
)

// IncidentID returns the id of the incident that an order with this nonce opens.
func IncidentID(nonce string) string { return "i" + nonce[:min(len(nonce), 16)] }

// NewOrder returns an order with a new nonce. It expires when the time life has passed since now.
func NewOrder(do Do, project string, now time.Time, life time.Duration) *Order {
	return &Order{Version: OrderVersion, Do: do, Project: project, Nonce: NewNonce(),
		Expires: now.UTC().Add(life).Truncate(time.Second)}
}

// Subject returns the name of the incident or restore point that the order is about, or "disclosure". The NATS subject
// of the request with the order ends with this name.
func (o *Order) Subject() string {
	if o.Do == Disclose {
		return string(Disclose)
	}
	return o.Incident + o.Point
}

// Text returns the text that is signed.
func (o *Order) Text() (string, error) { return canonical(o) }

// Sign returns the order as a signed note.
func (o *Order) Sign(signer note.Signer) ([]byte, error) { return signStatement(o, signer) }

func (o *Order) check() error {
	_, known := orders[o.Do]
	switch {
	case o.Version != OrderVersion:
		return refuse(CheckForm, "version is %q, want %q", clip(o.Version), OrderVersion)
	case !known:
		return refuse(CheckForm, "there is no order %q", clip(string(o.Do)))
	case !isHex(o.Nonce, 2*NonceSize):
		return refuse(CheckForm, "nonce %q must be %d bytes in lower-case hex", clip(o.Nonce), NonceSize)
	case o.Project == "":
		return refuse(CheckForm, "the project must be named")
	case !wholeSeconds(o.Expires):
		return refuse(CheckForm, "expires is not a time in whole seconds")
	case len(o.Reason) > MaxReason:
		return refuse(CheckForm, "the reason has %d bytes, at most %d are possible", len(o.Reason), MaxReason)
	case len(o.Title) > beliefs.MaxIncidentTitle || len(o.Key) > MaxOrderKey:
		return refuse(CheckForm, "title and key have %d and %d bytes, at most %d and %d are possible", len(o.Title),
			len(o.Key), beliefs.MaxIncidentTitle, MaxOrderKey)
	case len(o.Finding) > MaxOrderEvidence:
		return refuse(CheckForm, "%d pieces of evidence, at most %d are taken in one order", len(o.Finding), MaxOrderEvidence)
	case o.Scope != nil && len(o.Scope.Beliefs) > MaxOrderBeliefs:
		return refuse(CheckForm, "%d beliefs, at most %d are taken in one order", len(o.Scope.Beliefs), MaxOrderBeliefs)
	}
	said := []string{o.Project, o.Incident, o.Point, o.Key, o.Reason, o.Title, o.Severity}
	for _, f := range o.Finding {
		if f.Kind == "" || f.Kind == beliefs.FindingAlert || f.ID == "" || f.Entry != 0 || !f.At.IsZero() {
			return refuse(CheckForm, "a piece of evidence needs a kind, which is not %s, and an id; entry and time are "+
				"the ledger's", beliefs.FindingAlert)
		}
		said = append(said, f.Kind, f.ID, f.Rule, f.Text)
	}
	if s := o.Scope; s != nil {
		said = append(append(said, s.Agent, s.Session, s.Source, s.Tool), s.Beliefs...)
	}
	if r := o.Recall; r != nil {
		said = append(append(said, r.Key, r.Query), r.Beliefs...)
	}
	if err := checkTexts(said...); err != nil {
		return err
	}
	return o.checkParts()
}

// checkParts checks that an order has the fields that its kind needs, and no others.
func (o *Order) checkParts() error {
	only := func(have bool, on ...Do) error {
		if have && !slices.Contains(on, o.Do) {
			return refuse(CheckForm, "the order %s has a field that only other orders may have", o.Do)
		}
		return nil
	}
	for _, err := range []error{
		only(o.Key+o.Severity+o.Title != "", OpenIncident),
		only(len(o.Finding) > 0, OpenIncident, AddEvidence),
		only(o.Scope != nil, QuarantineIncident),
		only(o.Point != "", TakePoint, Restore),
		only(o.Recall != nil, Disclose),
		only(o.Incident != "", OpenIncident, AddEvidence, QuarantineIncident, RepairIncident, CloseIncident),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case o.Subject() == "":
		return refuse(CheckForm, "the incident or restore point must be named")
	case o.Do == OpenIncident && o.Incident != IncidentID(o.Nonce):
		return refuse(CheckForm, "the id of the new incident must be %s, which is made from the nonce", IncidentID(o.Nonce))
	case o.Do == OpenIncident && o.Title == "":
		return refuse(CheckForm, "an incident needs a title")
	case o.Do == AddEvidence && len(o.Finding) == 0:
		return refuse(CheckForm, "the order has no evidence: name some")
	case o.Do == QuarantineIncident && o.Scope.Empty():
		return refuse(CheckForm, "name beliefs, a source, a session, an agent, a tool, or a time")
	case o.Do == Disclose && (o.Recall == nil || len(o.Recall.Beliefs) == 0 && o.Recall.Key+o.Recall.Query == ""):
		return refuse(CheckForm, "name beliefs, a key or a query")
	case o.Do == Disclose && (o.Recall.Limit < 0 || o.Recall.Limit > MaxDisclosed ||
		len(o.Recall.Beliefs) > MaxOrderBeliefs):
		return refuse(CheckForm, "the limit is %d and %d beliefs are named, but at most %d and %d are possible",
			o.Recall.Limit, len(o.Recall.Beliefs), MaxDisclosed, MaxOrderBeliefs)
	case o.Do == Disclose && o.Reason == "":
		return refuse(CheckForm, "a privileged recall needs a reason")
	case o.Do == CloseIncident && o.Reason == "":
		return refuse(CheckForm, "an order that closes an incident needs a report as its reason: say what was found and done")
	}
	if o.Do == OpenIncident {
		if _, err := beliefs.ParseSeverity(o.Severity); err != nil {
			return refuse(CheckForm, "%v", err)
		}
	}
	return nil
}

// SignedOrder is an order with a verified signature.
type SignedOrder struct {
	Order
	Signature
}

// OpenOrder verifies that msg is an order that exactly one pinned key has signed. It does not check whether the key may
// give this order: see Judge. Passkeys may sign only resolutions and attestations: only for these the
// counter is stored, and without the counter a copied passkey cannot be detected. Every error is an *Error.
func OpenOrder(msg []byte, trust *keys.Trust) (*SignedOrder, error) {
	s := new(SignedOrder)
	if err := openStatement(msg, trust, &s.Order, &s.Signature); err != nil {
		return nil, err
	}
	if s.Passkey {
		return nil, refuse(CheckRole, "key %q is a passkey: it resolves holds, attests beliefs and signs nothing else",
			s.Signer)
	}
	return s, nil
}

// CheckOrder fails if the order is for another project or cannot be carried out now.
const CheckOrder Check = "order"

// OrderCase is the state of the project when an order is judged.
type OrderCase struct {
	Project string
	Role    keys.Role // the policy's approver role; empty: keys.RoleApprover
	Now     time.Time // ledger time
	Used    bool      // the nonce was used before
}

// Judge returns nil if a verified order may be accepted in this state. Otherwise it returns an *Error.
func (s *SignedOrder) Judge(c *OrderCase) error {
	role := c.Role
	if role == "" {
		role = keys.RoleApprover
	}
	may := func(r keys.Role) bool { return r == role || slices.Contains(orders[s.Do], r) }
	switch {
	case s.Project != c.Project:
		return refuse(CheckOrder, "it is for another project: %s", clip(s.Project))
	case c.Used:
		return refuse(CheckReplayed, "its nonce was used before: each order counts once")
	}
	if err := inTime(s.Expires, c.Now); err != nil {
		return err
	}
	switch {
	case !slices.ContainsFunc(s.Pin.Roles, may):
		return refuse(CheckRole, "key %q has the roles %v, but %s needs one of %v", s.Signer, s.Pin.Roles, s.Do,
			append([]keys.Role{role}, orders[s.Do]...))
	case strings.HasPrefix(s.Pin.Agent, c.Project+"/") && !slices.Contains(orders[s.Do], keys.RoleProbe):
		return refuse(CheckSelf, "key %q belongs to agent %s of the project, so it may not sign %s", s.Signer,
			s.Pin.Agent, s.Do)
	}
	return nil
}

// By returns the authority with which the order changes beliefs: that of a probe if the key has the role probe
// and not the policy's approver role, otherwise that of a user. role is the approver role.
func (s *SignedOrder) By(role keys.Role) beliefs.Authority {
	if role == "" {
		role = keys.RoleApprover
	}
	if !slices.Contains(s.Pin.Roles, role) && slices.Contains(s.Pin.Roles, keys.RoleProbe) {
		return beliefs.ByProbe
	}
	return beliefs.ByUser
}
