
declare
    v_stock_data text;
    v_item_data text;
    v_item_name text;
    v_price numeric;
    v_amount numeric;
    v_quantity int;
    v_dist text;
begin
    select w_tax, c_discount, c_last, c_credit into r_w_tax, r_discount, r_c_last, r_credit
    from warehouse, customer
    where w_id = p_w_id and c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id;

    update district set d_next_o_id = d_next_o_id + 1
    where d_w_id = p_w_id and d_id = p_d_id
    returning d_next_o_id - 1, d_tax into r_o_id, r_d_tax;

    insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (r_o_id, p_d_id, p_w_id, p_c_id, now(), cardinality(p_items), (p_w_id = all (p_supplies))::int);

    insert into new_order (no_o_id, no_d_id, no_w_id) values (r_o_id, p_d_id, p_w_id);

    r_total := 0;
    for v_line in 1 .. cardinality(p_items) loop
        select i_price, i_name, i_data into v_price, v_item_name, v_item_data
        from item where i_id = p_items[v_line];
        if not found then
            /* unused item */
        end if;

        update stock
        set s_quantity = s_quantity - p_quantities[v_line]
                + case when s_quantity >= p_quantities[v_line] + 10 then 0 else 91 end/* stock counts */
        where s_i_id = p_items[v_line] and s_w_id = p_supplies[v_line]
        returning s_quantity, s_data,
            case p_d_id
                when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
                when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
                when 9 then s_dist_09 else s_dist_10
            end
        into v_quantity, v_stock_data, v_dist;

        v_amount := p_quantities[v_line] * v_price;
        insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
                                ol_quantity, ol_amount, ol_dist_info)
        values (r_o_id, p_d_id, p_w_id, v_line, p_items[v_line], p_supplies[v_line],
                p_quantities[v_line], v_amount, v_dist);

        r_total := r_total + v_amount;
        r_names[v_line] := v_item_name;
        r_prices[v_line] := v_price;
        r_stocks[v_line] := v_quantity;
        r_brands[v_line] := case
            when position('ORIGINAL' in v_item_data) > 0 and position('ORIGINAL' in v_stock_data) > 0 then 'B'
            else 'G'
        end;
        r_amounts[v_line] := v_amount;
    end loop;
    r_total := r_total * (1 - r_discount) * (1 + r_w_tax + r_d_tax);
end
