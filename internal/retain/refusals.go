package retain

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/internal/statement"
	"lazaret/streams"
)

// incidentSubject is the subject of the auditors' incidents.
const incidentSubject = "lz.live." + streams.SystemProject + ".incident"

// unnamed stands for an auditor of an earlier version, whose refusals do not name it.
const unnamed = "without a name (an earlier version, whose refusals do not name it)"

// refusals returns the auditors that refused one of the statements in orders, and each one's reason. entry is the
// ledger entry of the last statement. An auditor publishes its refusal before the checkpoint that covers the statement,
// so call this after awaitAuditors.
func (c *Config) refusals(ctx context.Context, js jetstream.JetStream, orders []string,
	entry uint64) (map[string]string, error) {
	out := make(map[string]string)
	return out, stage.Each(ctx, js, stage.Span{Stream: streams.LiveStream, Filters: []string{incidentSubject}},
		func(m jetstream.Msg, _ uint64, _ time.Time) error {
			var r statement.Refusal
			if streams.Unmarshal(m.Data(), &r) != nil || r.Kind != statement.RefusalKind {
				return nil
			}
			if !slices.Contains(orders, r.Order) && (r.Order != "" || r.Entry != entry) {
				return nil
			}
			if r.Auditor == "" {
				r.Auditor = unnamed
			}
			out[r.Auditor] = r.Reason
			return nil
		})
}

// auditorPlaces returns a place for each registered auditor and for each one that refused a statement. did is the text
// of the place of an auditor that carried the statements out; the other parameters are those of refusals.
func (c *Config) auditorPlaces(ctx context.Context, did string, orders []string, entry uint64) ([]Place, error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	refused, err := c.refusals(ctx, js, orders, entry)
	if err != nil {
		return nil, err
	}
	all := c.auditors()
	for id := range refused {
		all[id] = nil
	}
	var out []Place
	for _, id := range slices.Sorted(maps.Keys(all)) {
		p := Place{Where: "auditor " + id, What: did, Count: 1}
		if why, ok := refused[id]; ok {
			p = Place{Where: p.Where, What: "payloads",
				Left: "the auditor refused the statement, and its log still has the payloads: " + why}
		}
		out = append(out, p)
	}
	return out, nil
}
