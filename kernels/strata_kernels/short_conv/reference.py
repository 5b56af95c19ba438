"""The convolution as a sum over overlapping views of the rows."""

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
    count, channels = taps.shape
    length = rows.shape[0] - (count - 1) * dilation
    # Overlapping views, [T, taps, C]: no copy, and one sum for all taps.
    looks = mx.as_strided(
        rows, (length, count, channels), (channels, dilation * channels, 1)
    )
    return (looks * taps).sum(axis=1)
