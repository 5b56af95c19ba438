"""The convolution as a sum of shifted rows."""

import mlx.core as mx


def short_conv(rows: mx.array, taps: mx.array, *, dilation: int = 1) -> mx.array:
    """`y[t] = sum_i taps[i] * rows[t + i * dilation]`: the last tap is the row itself.

    Args:
        rows: the history followed by the window's T rows,
            [(taps - 1) * dilation + T, C].
        taps: [taps, C], oldest first.
        dilation: rows between two taps.

    Returns:
        [T, C].
    """
    count = taps.shape[0]
    length = rows.shape[0] - (count - 1) * dilation
    # Added tap by tap, so that a row's bits do not depend on how many rows there are.
    total = rows[:length] * taps[0]
    for i in range(1, count):
        total = total + rows[i * dilation : i * dilation + length] * taps[i]
    return total
