package ingest

import (
	"errors"
	"fmt"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

func init() {
	writes[streams.OrderEntry](streams.TypeOrder, nil)
}

// order records a signed order and its effects. A refused order is recorded as an entry of type order without effects.
// The decision depends only on earlier ledger entries.
func (f *Fold) order(st *stage.State, m *stage.Message, c *streams.Control, head streams.EntryHead) (*stage.Admission,
	error) {
	if err := addressed(m, c, c.Hold); err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	e := &streams.OrderEntry{EntryHead: head, Subject: c.Hold, Note: c.Order}
	if len(c.Order) > streams.MaxResolution {
		e.Note, e.Size = streams.Clip(c.Order, streams.MaxResolution), len(c.Order)
	}
	a, err := f.decideOrder(st, c, head, e)
	var refused *approval.Error
	if errors.As(err, &refused) {
		e.Check, e.Text = string(refused.Check), refused.Text
		return admission(streams.TypeOrder, c.Project, e)
	}
	return a, err
}

// decideOrder verifies an order and computes its effects. It returns an *approval.Error if it refuses the order. It
// also sets the fields of e, as far as they are known when it refuses.
func (f *Fold) decideOrder(st *stage.State, c *streams.Control, head streams.EntryHead,
	e *streams.OrderEntry) (*stage.Admission, error) {
	trust, _, err := f.trust.Active(st, streams.DoActivateTrust)
	if err != nil {
		return nil, err
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	s, err := approval.OpenOrder([]byte(c.Order), trust)
	if err != nil {
		return nil, err
	}
	e.Do, e.Signer = string(s.Do), s.Signer
	oc := approval.OrderCase{Project: c.Project, Now: head.Time}
	if pol != nil {
		oc.Role = pol.Approver()
	}
	if _, oc.Used, err = st.Get(stage.Key(keyNonce, c.Project, s.Nonce)); err != nil {
		return nil, err
	}
	if s.Subject() != c.Hold {
		return nil, orderError("the order was sent for %s, but its signed text is about %s", c.Hold,
			streams.Clip(s.Subject(), 64))
	}
	if err := s.Judge(&oc); err != nil {
		return nil, err
	}
	signed := &streams.Signature{Signer: s.Signer, Key: s.Pin.Key, Note: c.Order, Nonce: s.Nonce, Until: s.Expires}
	switch s.Do {
	case approval.TakePoint:
		return f.orderPoint(st, c.Project, head, s, signed)
	case approval.Restore:
		return f.orderRestore(st, c.Project, head, s, signed)
	case approval.Disclose:
		return f.disclose(st, c.Project, head, s, signed)
	}
	return f.incidentOrder(st, c.Project, head, s, signed, s.By(oc.Role))
}

func orderError(format string, args ...any) error {
	return &approval.Error{Check: approval.CheckOrder, Text: streams.Clip(fmt.Sprintf(format, args...), 400)}
}
