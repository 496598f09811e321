package webhook

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example of the specification's reference implementations.
const (
	specSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	specID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	specTime      = 1614265330
	specBody      = `{"test": 2432232314}`
	specSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

// other is another secret.
var other = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

func TestSignIsThatOfTheSpecification(t *testing.T) {
	got, err := Sign(specID, time.Unix(specTime, 999), []byte(specBody), specSecret)
	if err != nil || got != specSignature {
		t.Errorf("signature %q, %v; want %q", got, err, specSignature)
	}
}

func TestVerify(t *testing.T) {
	now := time.Unix(specTime, 0)
	both, err := Sign(specID, now, []byte(specBody), other, specSecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name                    string
		id, at, signature, body string
		secrets                 []string
		late                    time.Duration
		want                    error
	}{
		{name: "good"},
		{name: "one of two secrets is known", secrets: []string{other, specSecret}},
		{name: "one of two signatures is known", signature: both, secrets: []string{specSecret}},
		{name: "the other of two signatures is known", signature: both, secrets: []string{other}},
		{name: "a version that is not known stands beside", signature: "v1a,AAAA v2,!! " + specSignature},
		{name: "five minutes late", late: Tolerance},
		{name: "five minutes early", late: -Tolerance},
		{name: "too old", late: Tolerance + time.Second, want: ErrTime},
		{name: "from the future", late: -Tolerance - time.Second, want: ErrTime},
		{name: "altered body", body: `{"test": 2432232315}`, want: ErrSignature},
		{name: "altered id", id: "msg_q5jXN8AQM9LWM0D4loKWxJek", want: ErrSignature},
		{name: "altered time", at: strconv.Itoa(specTime + 1), want: ErrSignature},
		{name: "another secret", secrets: []string{other}, want: ErrSignature},
		{name: "no secret", secrets: []string{}, want: ErrSignature},
		{name: "a version without a signature", signature: "v1,", want: ErrSignature},
		{name: "of another version", signature: strings.Replace(specSignature, "v1", "v2", 1), want: ErrSignature},
		{name: "cut off", signature: specSignature[:len(specSignature)-4], want: ErrSignature},
		{name: "no time", at: "-", want: ErrHeaders},
		{name: "a time with a fraction", at: "1614265330.5", want: ErrHeaders},
		{name: "a huge time", at: "9223372036854775807", want: ErrTime},
		{name: "a time that is too large", at: "9223372036854775808", want: ErrHeaders},
	} {
		t.Run(tt.name, func(t *testing.T) {
			or := func(s, d string) string {
				if s == "" {
					return d
				}
				return s
			}
			h := http.Header{}
			h.Set("Webhook-Id", or(tt.id, specID))
			h.Set("Webhook-Timestamp", or(tt.at, strconv.Itoa(specTime)))
			h.Set("Webhook-Signature", or(tt.signature, specSignature))
			secrets := tt.secrets
			if secrets == nil {
				secrets = []string{specSecret}
			}
			err := VerifyAt(now.Add(tt.late), h, []byte(or(tt.body, specBody)), secrets...)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	for _, missing := range []string{HeaderID, HeaderTimestamp, HeaderSignature} {
		h := http.Header{}
		h.Set(HeaderID, specID)
		h.Set(HeaderTimestamp, strconv.Itoa(specTime))
		h.Set(HeaderSignature, specSignature)
		h.Del(missing)
		if err := VerifyAt(now, h, []byte(specBody), specSecret); !errors.Is(err, ErrHeaders) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// A signed text stands for one id, one time and one body: whoever has seen a
// webhook can't divide it in another way, or write its parts in another form.
func TestVerifyRefusesForgedDivisions(t *testing.T) {
	now := time.Unix(specTime, 0)
	at := strconv.Itoa(specTime)
	// What is signed in each case is id + "." + at + "." + body.
	for name, tt := range map[string]struct{ id, at, body string }{
		"the id takes the timestamp":             {"msg_1." + at, at, specBody},
		"the id takes a part of the body":        {"msg_1." + at + ".a", at, "b"},
		"the id ends with the dot":               {"msg_1.", at, specBody},
		"the id begins with a dot":               {".msg_1", at, specBody},
		"the id is a dot":                        {".", at, specBody},
		"no id":                                  {"", at, specBody},
		"an id with a space":                     {"msg 1", at, specBody},
		"an id with a line end":                  {"msg\n1", at, specBody},
		"an id with a NUL character":             {"msg\x001", at, specBody},
		"an id with a DEL character":             {"msg\x7f", at, specBody},
		"the timestamp takes the body":           {"msg_1", at + ".5", specBody},
		"the timestamp with a plus":              {"msg_1", "+" + at, specBody},
		"a negative timestamp":                   {"msg_1", "-" + at, specBody},
		"a timestamp with a leading zero":        {"msg_1", "0" + at, specBody},
		"a timestamp with a blank before":        {"msg_1", " " + at, specBody},
		"a timestamp with a blank after":         {"msg_1", at + " ", specBody},
		"a timestamp with a line end":            {"msg_1", at + "\n", specBody},
		"a timestamp with underscores":           {"msg_1", "1_614_265_330", specBody},
		"a timestamp in hexadecimal":             {"msg_1", "0x6037AF72", specBody},
		"a timestamp with an exponent":           {"msg_1", "1.61426533e9", specBody},
		"a timestamp in other digits":            {"msg_1", "١٦١٤٢٦٥٣٣٠", specBody},
		"no timestamp":                           {"msg_1", "", specBody},
		"a timestamp that is minus zero":         {"msg_1", "-0", specBody},
		"the id is that of two, with one inside": {at + "." + at, at, ""},
	} {
		key, err := ParseSecret(specSecret)
		if err != nil {
			t.Fatal(err)
		}
		signature := "v1," + base64.StdEncoding.EncodeToString(sum(key, tt.id, tt.at, []byte(tt.body)))
		for _, signatures := range []string{signature, "v1,AAAA " + signature, signature + " " + signature} {
			// As a map, for Set would be kinder than a server that passes on what it got.
			h := http.Header{"Webhook-Id": {tt.id}, "Webhook-Timestamp": {tt.at}, "Webhook-Signature": {signatures}}
			if err := VerifyAt(now, h, []byte(tt.body), specSecret); !errors.Is(err, ErrHeaders) {
				t.Errorf("%s, signatures %q: %v", name, signatures, err)
			}
		}
	}
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp"} {
		h := http.Header{"Webhook-Id": {specID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {specSignature}}
		if err := VerifyAt(now, h, []byte(specBody), specSecret); err != nil {
			t.Error(err)
		}
		h[name] = append(h[name], "other")
		if err := VerifyAt(now, h, []byte(specBody), specSecret); !errors.Is(err, ErrHeaders) {
			t.Errorf("%s twice: %v", name, err)
		}
	}
}

func TestVerifyOfNow(t *testing.T) {
	h := http.Header{}
	now := time.Now()
	signature, err := Sign("id", now, nil, other)
	if err != nil {
		t.Fatal(err)
	}
	h.Set(HeaderID, "id")
	h.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(HeaderSignature, signature)
	if err := Verify(h, nil, other); err != nil {
		t.Error(err)
	}
	if err := Verify(h, nil, "x"); err == nil || strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a secret that is none: %v", err)
	}
}

func TestParseSecret(t *testing.T) {
	encoded := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, good := range []string{encoded(24), encoded(64), specSecret} {
		if _, err := ParseSecret(good); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{"", "whsec_", encoded(23), encoded(65), "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%%"} {
		_, err := ParseSecret(bad)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad+`"`) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	for _, id := range []string{"", "a.b", "a b", "a\nb"} {
		if _, err := Sign(id, time.Now(), nil, other); err == nil {
			t.Errorf("id %q was accepted", id)
		}
	}
	if _, err := Sign("id", time.Now(), nil); err == nil {
		t.Error("signed without a secret")
	}
	if _, err := Sign("id", time.Now(), nil, "whsec_"); err == nil {
		t.Error("signed with an empty secret")
	}
}
