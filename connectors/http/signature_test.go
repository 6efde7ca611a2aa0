package http

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// TestSignatures has GitHub's and Standard Webhooks' own examples, and those that must not pass.
func TestSignatures(t *testing.T) {
	t.Parallel()
	hello := []byte("Hello, World!")
	const secret = "It's a Secret to Everybody"
	const hello256 = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	raw, err := hex.DecodeString(hello256)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1614265330, 0)
	stripe := func(at int64) string {
		text := strconv.FormatInt(at, 10)
		return "t=" + text + ",v0=00,v1=" + hex.EncodeToString(sum([]byte(secret), []byte(text+"."), []byte("old"))) + ",v1=" + hex.EncodeToString(sum([]byte(secret), []byte(text+"."), hello))
	}
	const standardSecret, standardSignature = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	event := []byte(`{"test": 2432232314}`)
	standard := map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330", "Webhook-Signature": "v1,AAAA " + standardSignature}
	for name, c := range map[string]struct {
		scheme  Scheme
		secret  string
		headers map[string]string
		body    []byte
		want    error
	}{
		"github":                       {GitHub, secret, map[string]string{"X-Hub-Signature-256": "sha256=" + hello256}, hello, nil},
		"github, another body":         {GitHub, secret, map[string]string{"X-Hub-Signature-256": "sha256=" + hello256}, []byte("Hello, World?"), errSignature},
		"github, another secret":       {GitHub, secret + "!", map[string]string{"X-Hub-Signature-256": "sha256=" + hello256}, hello, errSignature},
		"github, none":                 {GitHub, secret, nil, hello, errSignature},
		"hmac in hexadecimal":          {HMAC, secret, map[string]string{"X-Signature": hello256}, hello, nil},
		"hmac in base64":               {HMAC, secret, map[string]string{"X-Signature": base64.StdEncoding.EncodeToString(raw)}, hello, nil},
		"hmac, cut":                    {HMAC, secret, map[string]string{"X-Signature": hello256[:62]}, hello, errSignature},
		"hmac, empty":                  {HMAC, secret, map[string]string{"X-Signature": "sha256="}, hello, errSignature},
		"stripe":                       {Stripe, secret, map[string]string{"Stripe-Signature": stripe(now.Unix() - 299)}, hello, nil},
		"stripe, too old":              {Stripe, secret, map[string]string{"Stripe-Signature": stripe(now.Unix() - 301)}, hello, errTime},
		"stripe, from the future":      {Stripe, secret, map[string]string{"Stripe-Signature": stripe(now.Unix() + 301)}, hello, errTime},
		"stripe, another body":         {Stripe, secret, map[string]string{"Stripe-Signature": stripe(now.Unix())}, event, errSignature},
		"stripe, no time":              {Stripe, secret, map[string]string{"Stripe-Signature": "v1=" + hex.EncodeToString(sum([]byte(secret), []byte("."), hello))}, hello, errSignature},
		"standard":                     {Standard, standardSecret, standard, event, nil},
		"standard, another body":       {Standard, standardSecret, standard, hello, errSignature},
		"bearer":                       {Bearer, secret, map[string]string{"Authorization": "Bearer " + secret}, hello, nil},
		"bearer, another":              {Bearer, secret, map[string]string{"Authorization": "Bearer " + secret + "x"}, hello, errSignature},
		"bearer, without the word":     {Bearer, secret, map[string]string{"Authorization": secret}, hello, errSignature},
		"none asks for nothing at all": {Unsigned, "", nil, hello, nil},
	} {
		p := Path{Signature: c.scheme, Secret: c.secret, Header: "X-Signature", Tolerance: 5 * time.Minute}
		h := http.Header{}
		for k, v := range c.headers {
			h.Set(k, v)
		}
		if err := p.verify(h, c.body, now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1769776496, 0)
	d, ok := newDedup(time.Hour, 3, "")
	if !ok {
		t.Fatal("no keys is no list")
	}
	for i := range 4 {
		d.add(hashOf("/", strconv.Itoa(i)), int64(i+1), now.Add(time.Duration(i)*time.Minute))
	}
	again, ok := newDedup(time.Hour, 3, d.text())
	if !ok {
		t.Fatal("the text is not read back")
	}
	for _, d := range []*dedup{d, again} {
		for i, want := range []bool{false, true, true, true} {
			if _, ok := d.find(hashOf("/", strconv.Itoa(i)), now.Add(time.Hour)); ok != want {
				t.Errorf("key %d: %t", i, ok)
			}
		}
		if _, ok := d.find(hashOf("/", "1"), now.Add(time.Hour+61*time.Second)); ok {
			t.Error("a key is older than the window")
		}
		if _, ok := d.find(hashOf("/other", "3"), now); ok {
			t.Error("a key of another path")
		}
	}
}
