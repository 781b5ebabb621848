package order

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Life is the validity of an order that is sent immediately.
const Life = 10 * time.Minute

// Refused is the error of an order that was refused. The ledger records it, and nothing changed.
type Refused struct {
	Check string // the failed check
	Text  string
	Entry uint64 // ledger sequence
}

func (e *Refused) Error() string { return fmt.Sprintf("order refused: %s", e.Text) }

// Send signs an order and sends it over a connection that may publish to lz.svc.resolve.>: an
// operator's or an approver's. It returns once the ledger has recorded the result. A *Refused error
// means that nothing changed. After any other error the order may still take effect.
func Send(ctx context.Context, nc *nats.Conn, signer note.Signer, o *approval.Order) (*streams.ResolveReply, error) {
	signed, err := o.Sign(signer)
	if err != nil {
		return nil, err
	}
	subject, err := streams.ResolveSubject(o.Project, o.Subject())
	if err != nil {
		return nil, err
	}
	body, err := streams.Marshal(streams.ResolveRequest{Note: string(signed), Order: true})
	if err != nil {
		return nil, err
	}
	m, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return nil, fmt.Errorf("no answer on %s: %w: the pipeline may have the order already; check what it changes "+
			"before you sign it again", subject, err)
	}
	rep := new(streams.ResolveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", subject, err)
	}
	if rep.Error != nil {
		if rep.Check != "" {
			return rep, &Refused{rep.Check, rep.Text, rep.Entry}
		}
		return rep, fmt.Errorf("%s: %s", rep.Error.Code, rep.Error.Message)
	}
	return rep, nil
}

// OpenIncident opens an incident and returns its id. If an incident with the same key is open, the
// findings are added to it and its id is returned. The signer's key needs the role approver, operator,
// auditor or probe. found may be nil; more than approval.MaxOrderEvidence findings are refused.
func OpenIncident(
	ctx context.Context,
	nc *nats.Conn,
	signer note.Signer,
	project, key string,
	severity beliefs.Severity,
	title string,
	found ...beliefs.IncidentFinding,
) (string, error) {
	o := approval.NewOrder(approval.OpenIncident, project, time.Now(), Life)
	o.Incident = approval.IncidentID(o.Nonce)
	o.Key, o.Severity, o.Title, o.Finding = key, severity.String(), title, found
	rep, err := Send(ctx, nc, signer, o)
	if err != nil {
		return "", err
	}
	return rep.Hold, nil
}
