"""What people are told of each mechanism: what leaves a device, and how that comes about.

Texts are templates that set ``leaves``, one sentence, and ``how``. ``drawn`` are the whole numbers
of the sampler, which are part of a survey, so that the odds are those that it really draws by:
``odds(a, b)`` is a of b, as people say it. ``deniable`` and ``in_the_crowd`` are sentences for all.
"""

from __future__ import annotations

ONE_ANSWER = """
{% set truth = odds(drawn.get("high", drawn.get("with")), drawn.total) %}
{% set leaves %}
  One answer leaves your device, and chance decides which: yours in {{ truth }}, another one
  otherwise.
{% endset %}
{% set how %}
  Your device draws a random number. In {{ truth }} it reports your answer; otherwise
  {% if others == 1 %}
    the other one.
  {% else %}
    one of the other {{ others|count }}, each as likely as any.
  {% endif %}
  Nothing records which case it was.
  {{ deniable }}
{% endset %}
"""

_FITTING = """
{% set truth = odds(inside * drawn.high, drawn.total) %}
{% set leaves %}
  One message leaves your device, and chance decides which: in {{ truth }} one that fits your
  answer and may fit others, otherwise one that does not fit yours.
{% endset %}
{% set how %}
  {{ which }}
  In {{ truth }} your device sends a message that fits your answer, otherwise one that does not.
  Nothing records which case it was.
  {{ deniable }}
{% endset %}
"""

BY_TABLE = """
{% set inside = 1 %}
{% set which %}
  There are {{ (drawn.blocks * drawn.width)|count }} messages, and every answer fits
  {{ (drawn.width // 2)|count }} of them by a public table.
{% endset %}
"""
BY_TABLE += _FITTING

BY_RULE = """
{% set inside = (drawn.q ** (drawn.t - 1) - 1) // (drawn.q - 1) %}
{% set which %}
  There are {{ ((drawn.q ** drawn.t - 1) // (drawn.q - 1))|count }} messages, and every answer
  fits {{ inside|count }} of them by a rule.
{% endset %}
"""
BY_RULE += _FITTING

BY_GROUP = """
{% set inside = 1 %}
{% set which %}
  Your device first sorts all answers into {{ drawn.buckets|count }} groups, by chance.
{% endset %}
"""
BY_GROUP += _FITTING

SUBSET = f"""
{{% if drawn.size == 1 %}}{ONE_ANSWER}{{% else %}}
"""
SUBSET += """
{% set truth = odds(drawn.with, drawn.total) %}
{% set leaves %}
  A list of {{ drawn.size|count }} answers leaves your device, and chance decides which: yours is
  on it in {{ truth }}.
{% endset %}
{% set how %}
  Your device draws {{ drawn.size|count }} of the {{ answers|length|count }} answers. In
  {{ truth }} yours is one of them, otherwise it is not; the others are drawn without looking at
  it.
  {{ deniable }}
{% endset %}
{% endif %}
"""

COINS_FOR_ALL = """
{% set yours, each_other = odds(drawn.true, coins), odds(drawn.false, coins) %}
{% set leaves %}
  A list of answers leaves your device, and chance decides which: yours is on it in {{ yours }},
  every other answer in {{ each_other }}.
{% endset %}
{% set how %}
  Your device tosses a coin of its own for every answer. Yours goes on the list in {{ yours }},
  each other one in {{ each_other }}.
  {{ deniable }}
{% endset %}
"""

NOISE = """
{% set far, moved = moves(device) %}
{% set leaves %}
  Your number leaves your device rounded, and moved by chance from there: by {{ far|plain }} or
  more in {{ cases(moved) }} at least.
{% endset %}
{% set how %}
  Your device rounds your number to one of {{ drawn.tails|length|count }} steps, adds a random
  number, above or below zero, and reports the sum; a sum beyond a bound is reported as the
  bound.
  {{ deniable }}
{% endset %}
"""

LOW_OR_HIGH = """
{% set truth = odds(drawn.high, drawn.total) %}
{% set leaves %}
  One word leaves your device, low or high, and chance decides which: the larger your number, the
  more often it is high.
{% endset %}
{% set how %}
  For {{ device.low|plain }} your device says low in {{ truth }}, for {{ device.high|plain }} it
  says high in {{ truth }}, and for numbers between them accordingly. No digit of your number is
  sent.
  {{ deniable }}
{% endset %}
"""

WINDOW = """
{% set truth = odds(drawn.width * drawn.high, drawn.total) %}
{% set leaves %}
  One number leaves your device, drawn by chance: near yours in {{ truth }}, anywhere else
  otherwise.
{% endset %}
{% set how %}
  Near yours is a window that covers {{ odds(drawn.width, drawn.outputs)|replace(" cases", "") }}
  of all that can be reported. In {{ truth }} your device draws a number from this window,
  otherwise one from outside it.
  {{ deniable }}
{% endset %}
"""

STEPS = """
{% set truth = odds(drawn.high, drawn.total) %}
{% set leaves %}
  One of {{ drawn.outputs|count }} steps from {{ device.low|plain }} to {{ device.high|plain }}
  leaves your device, and chance decides which: that of your number in {{ truth }}, another one
  otherwise.
{% endset %}
{% set how %}
  Your device rounds your number up or down to one of the steps, by chance. In {{ truth }} it
  reports that step, otherwise one of the other {{ (drawn.outputs - 1)|count }}, each as likely
  as any.
  {{ deniable }}
{% endset %}
"""

_AMONG = """
{% set always = drawn.always|count ~ " made-up one" ~ ("s" if drawn.always > 1 else "") %}
{% set one_more = "a made-up one more" if drawn.always else "a made-up one" %}
{% set at_times = one_more ~ " in " ~ odds(drawn.sometimes, coins) %}
{% set leaves %}
  Your answer leaves your device as it is, sometimes together with made-up ones; only the crowd
  hides whose it is.
{% endset %}
{% set how %}
  Your device sends your answer, and with it
  {{ [always if drawn.always else "", at_times if drawn.sometimes else ""]|select|join(" and ") }}.
  A made-up one is any answer, each as likely as any, and every message is sealed separately.
  {{ in_the_crowd }}
  {{ hashed }}
{% endset %}
"""

AMONG_DUMMIES = """
{% set hashed = "" %}
"""
AMONG_DUMMIES += _AMONG

AMONG_HASHED = """
{% set hashed %}
  A message does not name an answer, but one of many groups that it belongs to.
{% endset %}
"""
AMONG_HASHED += _AMONG

COPIES = """
{% set leaves %}
  Your answer leaves your device as it is, sometimes together with made-up ones; only the crowd
  hides whose it is.
{% endset %}
{% set how %}
  Your device sends your answer, and of each of the {{ answers|length|count }} answers one more
  copy in {{ odds(drawn.gamma, coins) }}. Every message is sealed separately.
  {{ in_the_crowd }}
{% endset %}
"""

ALL_COPIES = """
{% set leaves %}
  Every answer leaves your device, and yours once more; only the crowd hides whose it is.
{% endset %}
{% set how %}
  Your device sends one copy of every answer and one more of yours, but holds each of the former
  back in {{ odds(drawn.gamma, coins) }}. Every message is sealed separately.
  {{ in_the_crowd }}
{% endset %}
"""

MARKS = """
{% set leaves %}
  One mark leaves your device, and one more if you answer “{{ answers[1] }}”; only the crowd hides
  whose it is.
{% endset %}
{% set how %}
  Your device sends one mark, but holds it back in {{ odds(drawn.gamma, coins) }}. For
  “{{ answers[1] }}” it sends one more, for “{{ answers[0] }}” none. From outside all envelopes
  look the same.
  {{ in_the_crowd }}
{% endset %}
"""

COIN = """
{% set leaves %}
  One answer leaves your device, and chance decides which: yours in
  {{ odds(2 * coins - drawn.coins, 2 * coins) }}, the other one otherwise.
{% endset %}
{% set how %}
  In {{ odds(drawn.coins, coins) }} your device tosses a fair coin and reports what the coin says;
  otherwise it reports your answer.
  {{ deniable }}
{% endset %}
"""

SHARED_NOISE = """
{% set leaves %}
  Your answer leaves your device as it is, sometimes together with noise; only the crowd hides
  whose it is.
{% endset %}
{% set how %}
  Your device sends your answer, and by chance some marks more, for and against any of the
  {{ answers|length|count }} answers. All devices together make the noise; most marks cancel each
  other. Every mark is sealed separately.
  {{ in_the_crowd }}
{% endset %}
"""

_MARKS_AND_NOISE = """
{% set leaves %}
  Marks that stand for your answer leave your device, sometimes together with noise; only the
  crowd hides whose they are.
{% endset %}
{% set how %}
  Your device sends
  {{ marks }}
  and by chance some marks more, above and below zero. All devices together make the noise; most
  add none. Every mark is sealed separately.
  {{ in_the_crowd }}
{% endset %}
"""

MARK_AND_NOISE = """
{% set marks %}
  one mark for “{{ answers[1] }}” and none for “{{ answers[0] }}”,
{% endset %}
"""
MARK_AND_NOISE += _MARKS_AND_NOISE

STEPS_AND_NOISE = """
{% set marks %}
  as many marks as your number has steps,
{% endset %}
"""
STEPS_AND_NOISE += _MARKS_AND_NOISE

CARRIED_NOISE = """
{% set leaves %}
  Your answer leaves your device as it is, sometimes together with noise; only the crowd hides
  whose it is.
{% endset %}
{% set how %}
  Your device sends your answer, and by chance pairs of messages that cancel, each about any of
  the {{ answers|length|count }} answers.
  {% if drawn.carriers == coins %}
    It also adds its share of noise, which counts an answer up or down, and messages that say
    nothing, until there are {{ device.slots|count }}.
  {% else %}
    In {{ odds(drawn.carriers, coins) }} it also adds a share of noise, which counts an answer up
    or down, and messages that say nothing, until there are {{ device.slots|count }}. The shuffler
    sees how many messages you send, which does not depend on your answer, and adds some that say
    nothing, so that nobody else does.
  {% endif %}
  Every message is sealed separately.
  {{ in_the_crowd }}
{% endset %}
"""

PIECES = """
{% set leaves %}
  Your number leaves your device in {{ device.slots|count }} random pieces that say nothing by
  themselves: only the sum of everybody's pieces can be read.
{% endset %}
{% set how %}
  Your device adds its share of noise to your number, and splits the sum into
  {{ device.slots|count }} numbers. Any {{ (device.slots - 1)|count }} of them are plain chance;
  all of them add up to that sum.
  {{ in_the_crowd }}
{% endset %}
"""
