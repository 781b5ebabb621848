package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lazaret/streams"
)

// Webhook is any HTTP receiver. Messages are signed according to Standard Webhooks 1.0
// (standardwebhooks.com).
type Webhook struct {
	URL        string `yaml:"url"`
	URLFile    string `yaml:"url_file"`
	Secret     string `yaml:"secret"` // whsec_ and 24 to 64 bytes in base64
	SecretFile string `yaml:"secret_file"`

	key []byte
}

func (w *Webhook) prepare() (err error) {
	if err := prepareURL(&w.URL, w.URLFile); err != nil {
		return err
	}
	if w.Secret, err = secretOf("secret", w.Secret, w.SecretFile); err != nil {
		return err
	}
	if w.Secret == "" {
		return errors.New("secret or secret_file is missing: the receiver verifies the signature with it")
	}
	w.key, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(w.Secret, "whsec_"))
	if err != nil || len(w.key) < 24 || len(w.key) > 64 {
		return errors.New("secret: want whsec_ and 24 to 64 random bytes in base64")
	}
	return nil
}

func (w *Webhook) secrets() []string { return []string{w.URL, w.Secret} }

func (w *Webhook) send(ctx context.Context, m *Message) error {
	body, err := streams.Marshal(object{"type": "lazaret." + string(m.Notices[0].Kind), "timestamp": m.Notices[0].Time,
		"data": m})
	if err != nil {
		return refusal{err}
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	h := http.Header{}
	h.Set("webhook-id", m.ID)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", sign(w.key, m.ID, stamp, body))
	return post(ctx, w.URL, h, body)
}

// sign returns the signature of a message according to Standard Webhooks.
func sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
