package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"lazaret/streams"
)

// OCSF writes detection findings of the Open Cybersecurity Schema Framework (class 2004): as JSON lines
// to a file, or as a list to a webhook.
type OCSF struct {
	File      string `yaml:"file"`
	URL       string `yaml:"url"`
	URLFile   string `yaml:"url_file"`
	Token     string `yaml:"token"`
	TokenFile string `yaml:"token_file"`
}

const ocsfVersion = "1.5.0"

func (o *OCSF) secrets() []string { return []string{o.URL, o.Token} }

func (o *OCSF) prepare() (err error) {
	if o.File != "" {
		if o.URL+o.URLFile+o.Token+o.TokenFile != "" {
			return errors.New("file and url are both set: use one")
		}
		return nil
	}
	if o.Token, err = secretOf("token", o.Token, o.TokenFile); err != nil {
		return err
	}
	return prepareURL(&o.URL, o.URLFile)
}

func (o *OCSF) send(ctx context.Context, m *Message) error {
	var list []object
	var lines []byte
	for _, n := range m.Notices {
		f := finding(n)
		b, err := streams.Marshal(f)
		if err != nil {
			return refusal{err}
		}
		list, lines = append(list, f), append(append(lines, b...), '\n')
	}
	if o.File != "" {
		return appendSynced(o.File, lines)
	}
	b, err := streams.Marshal(list)
	if err != nil {
		return refusal{err}
	}
	return post(ctx, o.URL, bearer(o.Token), b)
}

// finding returns a notification as a Detection Finding.
func finding(n *Notice) object {
	activity, status := 1, 1 // Create, New
	if n.Kind == KindSettled {
		activity, status = 3, 4 // Close, Resolved
	}
	title := n.headline()
	info := object{"uid": n.ID, "title": title, "created_time": n.Time.UnixMilli(), "types": []string{string(n.Kind)}}
	if n.Kind != KindAlert {
		info["uid"] = n.Hold
	}
	if n.Text != "" {
		info["desc"] = n.Text
	}
	if n.Link != "" {
		info["src_url"] = n.Link
	}
	if n.Rule != "" {
		info["analytic"] = object{"name": n.Rule, "type": "Rule", "type_id": 1}
	}
	return object{"category_uid": 2, "category_name": "Findings", "class_uid": 2004, "class_name": "Detection Finding",
		"activity_id": activity, "type_uid": 200400 + activity,
		"severity_id": 1 + max(0, slices.Index(severities, n.Severity)),
		"status_id":   status, "time": n.Time.UnixMilli(), "is_alert": n.Kind == KindAlert, "message": title,
		"finding_info": info,
		"metadata": object{
			"version": ocsfVersion,
			"uid":     n.ID,
			"product": object{"name": "Lazaret", "vendor_name": "Lazaret"},
		},
		"unmapped": object{
			"project": n.Project,
			"agent":   n.Agent,
			"session": n.Session,
			"tool":    n.Tool,
			"hold":    n.Hold,
			"state":   n.State,
			"effect":  n.Effect,
			"entry":   fmt.Sprint(n.Entry),
		}}
}

// appendSynced appends to a file and syncs it. If a crash left an incomplete last line, it first ends
// that line.
func appendSynced(file string, b []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if st, serr := f.Stat(); serr == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, rerr := f.ReadAt(last, st.Size()-1); rerr == nil && last[0] != '\n' {
			b = append([]byte{'\n'}, b...)
		}
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
