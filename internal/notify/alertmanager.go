package notify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lazaret/streams"
)

// Alertmanager is an Alertmanager with API v2. The alert about a hold ends when the hold expires. If the route's "on"
// has "settled", the alert ends as soon as the hold is settled. The alert about a finding ends after Alertmanager's
// resolve_timeout.
type Alertmanager struct {
	URL       string `yaml:"url"` // address of Alertmanager, without /api/v2/alerts
	Token     string `yaml:"token"`
	TokenFile string `yaml:"token_file"`
}

func (a *Alertmanager) prepare() (err error) {
	if err := checkURL("url", a.URL); err != nil {
		return err
	}
	a.Token, err = secretOf("token", a.Token, a.TokenFile)
	return err
}

func (a *Alertmanager) secrets() []string { return []string{a.Token} }

func (a *Alertmanager) send(ctx context.Context, m *Message) error {
	type alert struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Starts      time.Time         `json:"startsAt,omitzero"`
		Ends        time.Time         `json:"endsAt,omitzero"`
		URL         string            `json:"generatorURL,omitzero"`
	}
	var list []alert
	for _, n := range m.Notices {
		// A hold and its end have the same labels, by which Alertmanager identifies the alert.
		x := alert{Labels: map[string]string{"project": n.Project, "agent": n.Agent}, Starts: n.Time, URL: n.Link,
			Annotations: map[string]string{"summary": n.headline(), "description": n.Text}}
		switch n.Kind {
		case KindAlert:
			x.Labels["alertname"], x.Labels["severity"] = "LazaretAlert", n.Severity
			x.Labels["rule"], x.Labels["effect"], x.Labels["session"] = n.Rule, n.Effect, n.Session
		default:
			x.Labels["alertname"], x.Labels["severity"], x.Labels["hold"] = "LazaretHold", holdSeverity, n.Hold
			x.Ends = n.Expires
		}
		if n.Kind == KindSettled {
			x.Ends = n.Time
		}
		for k, v := range x.Labels {
			x.Labels[k] = cmp.Or(v, "none")
		}
		list = append(list, x)
	}
	body, err := streams.Marshal(list)
	if err != nil {
		return refusal{err}
	}
	return post(ctx, strings.TrimSuffix(a.URL, "/")+"/api/v2/alerts", bearer(a.Token), body)
}

// bearer returns the header with a token, or an empty header.
func bearer(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", fmt.Sprint("Bearer ", token))
	}
	return h
}
