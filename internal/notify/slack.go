package notify

import (
	"context"
	"errors"
	"fmt"

	"lazaret/streams"
)

// Slack is an incoming webhook of Slack. Values are sent in plain-text blocks, in which Slack
// interprets neither markup nor mentions.
type Slack struct {
	URL     string `yaml:"url"`
	URLFile string `yaml:"url_file"`
}

func (s *Slack) prepare() error { return prepareURL(&s.URL, s.URLFile) }

func (s *Slack) secrets() []string { return []string{s.URL} }

// prepareURL fills in the URL of a webhook from its file.
func prepareURL(to *string, file string) (err error) {
	if *to, err = secretOf("url", *to, file); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("url or url_file is missing")
	}
	return checkURL("url", *to)
}

type object = map[string]any

func (s *Slack) send(ctx context.Context, m *Message) error {
	plain := func(limit string) object { return object{"type": "plain_text", "text": limit, "emoji": false} }
	var blocks []object
	for i, n := range m.Notices {
		if i == shown {
			rest := fmt.Sprintf("and %d more", len(m.Notices)-shown)
			blocks = append(blocks, object{"type": "section", "text": plain(rest)})
			break
		}
		words := tame(n.headline())
		if n.Text != "" {
			words += "\n" + tame(n.Text)
		}
		b := object{"type": "section", "text": plain(words)}
		if n.Link != "" {
			b["accessory"] = object{
				"type":      "button",
				"text":      plain("Open in the console"),
				"url":       n.Link,
				"action_id": fmt.Sprint("open", i),
			}
		}
		blocks = append(blocks, b)
	}
	// Slack interprets the text of the pop-up, so it contains only fixed words.
	body, err := streams.Marshal(object{"text": fmt.Sprintf("Lazaret: %s (%d)", m.Notices[0].Kind, len(m.Notices)),
		"mrkdwn": false, "unfurl_links": false, "unfurl_media": false, "blocks": blocks})
	if err != nil {
		return refusal{err}
	}
	return post(ctx, s.URL, nil, body)
}
